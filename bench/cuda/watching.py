"""Runs parts of a report as processes with limits of time, and keeps the report on disk up to date."""
import json
import os
import pathlib
import re
import signal
import subprocess
import time

TELL_EVERY = 5  # seconds
KEPT_LINES = 40
# Parts with too many rows for a page: the columns that tell groups of rows apart.
GROUPED = {"mechanisms": ("type", "input"), "others": ("kernel", "type"), "oracle": ("type",)}
NOT_SHOWN = {"kernels": ("the list",)}


def text_of(value):
    if isinstance(value, bool) or not isinstance(value, float):
        return str(value)
    return f"{value:.2e}" if 0 < abs(value) < 1e-2 else f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def table(rows):
    if not rows:
        return ""
    lines = ["| " + " | ".join(rows[0]) + " |", "|" + "---|" * len(rows[0])]
    return "\n".join(lines + ["| " + " | ".join(text_of(value) for value in row.values()) + " |" for row in rows])


def disagreeing(rows):
    return [row for row in rows if str(row.get("agrees", "")).startswith("NO")]


def grouped(rows, keys):
    """A row for each value of keys: how many rows, how many disagree, and the greatest of each difference."""
    groups = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    for values, members in groups.items():
        compared = [row for row in members if row["agrees"] in ("yes", "NO")]
        worst = {key: max((row[key] for row in compared if isinstance(row[key], float)), default="")
                 for key in ("output", "gradients", "dq", "dk", "dv") if key in members[0]}
        said = sorted({row["agrees"] for row in members if row not in compared})
        yield {**dict(zip(keys, values)), "compared": len(compared), "disagree": len(disagreeing(members)), **worst,
               "not compared": f"{len(members) - len(compared)}: {said[0][:120]}" if said else ""}


class Report:
    """report.json and report.md in a folder: for each part its state, the rows so far, and the end of what it printed if it
    did not end well. `work` is a folder for the parts' own files."""

    def __init__(self, folder, titles, minutes, work):
        self.folder, self.titles, self.missing, self.work = pathlib.Path(folder), titles, [], pathlib.Path(work)
        for made in (self.folder, self.work):
            made.mkdir(parents=True, exist_ok=True)
        self.parts, self.end = {}, time.monotonic() + 60 * minutes

    def seconds_left(self):
        return self.end - time.monotonic()

    def write(self):
        state = {"missing": self.missing, "parts": self.parts}
        for name, text in (("report.json", json.dumps(state, indent=1)), ("report.md", self.markdown())):
            new = self.folder / f".{name}.{os.getpid()}"
            new.write_text(text + "\n")
            new.replace(self.folder / name)

    def markdown(self):
        lines = [f"Missing: {'; '.join(self.missing)}.\n"] if self.missing else []
        for name, part in self.parts.items():
            rows, wrong = part["rows"], disagreeing(part["rows"])
            shown = list(grouped(rows, GROUPED[name])) if name in GROUPED else [
                {key: value for key, value in row.items() if key not in NOT_SHOWN.get(name, ())} for row in rows]
            lines += [f"### {self.titles.get(name, name)}\n", f"{part['state']}, {part['seconds']:.0f} s\n", table(shown) + "\n"]
            if wrong and name in GROUPED:
                lines += ["Rows that disagree:\n", table(wrong[:20]) + "\n"]
        return "\n".join(lines)

    def status(self):
        """Returns the exit status: 1 if something disagrees or fails, 3 if a part did not end, else 0."""
        if any(part["state"].startswith("failed") or disagreeing(part["rows"]) for part in self.parts.values()):
            return 1
        return 3 if any(part["state"] != "done" for part in self.parts.values()) else 0


def rows_in(file):
    """The whole lines of a file that may be growing."""
    text = file.read_text() if file.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def stop(process):
    """With the processes that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def watch(name, parts, limit, report):
    """Runs a part for at most `limit` seconds and what the report has left, and stores its rows as they come. Returns its
    entry of the report."""
    rows, log = (report.work / f"{name}.{ending}" for ending in ("jsonl", "log"))
    rows.unlink(missing_ok=True)
    entry = report.parts[name] = {"state": "not started: no time is left", "seconds": 0.0, "rows": []}
    limit = min(limit, report.seconds_left())
    if limit > 5:
        with open(log, "w") as output:
            process = subprocess.Popen(parts.command(name, rows), stdout=output, stderr=subprocess.STDOUT,
                                       env=parts.environment, start_new_session=True)
            try:
                follow(name, process, rows, limit, report)
            finally:
                stop(process)
        entry["rows"] = rows_in(rows)
        if entry["state"] == "running":
            entry["state"] = "done" if process.returncode == 0 else f"failed: {last_line(log)}"
        if entry["state"] != "done":
            entry["printed"] = log.read_text(errors="replace").splitlines()[-KEPT_LINES:]
    wrong = len(disagreeing(entry["rows"]))
    print(f"{name}: {entry['state']}, {entry['seconds']:.0f} s, {len(entry['rows'])} rows"
          + (f", {wrong} DISAGREE" if wrong else ""), flush=True)
    report.write()
    return entry


def follow(name, process, rows, limit, report):
    """Waits for the process, tells how far it is, and ends it at its limit."""
    entry, start, told = report.parts[name], time.monotonic(), 0
    entry["state"] = "running"
    print(f"{name}: started, at most {limit:.0f} s", flush=True)
    while process.poll() is None:
        time.sleep(0.1)
        entry["seconds"] = time.monotonic() - start
        if entry["seconds"] > limit:
            entry["state"] = f"stopped after {limit:.0f} s"
            return
        if entry["seconds"] - told >= TELL_EVERY:
            told, entry["rows"] = entry["seconds"], rows_in(rows)
            print(f"{name}: {told:.0f} s of {limit:.0f}, {len(entry['rows'])} rows", flush=True)
            report.write()


def last_line(log):
    """The line that names the error, or the last one; compilers write advice behind it."""
    lines = log.read_text(errors="replace").strip().splitlines()
    named = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Interrupt|Unsupported)\b", line)]
    return (named or lines or ["no output"])[-1]
