"""Calls of the program in a fork of the test's own process, which has loaded libtorch once: a start of the program costs
a third of a second of CPU time, a fork a few milliseconds. A call sees what a started program sees: its arguments, its
environment, its working folder, pipes as standard streams, default signals and no other open file."""
import ctypes
import functools
import os
import pathlib
import selectors
import signal
import subprocess
import sys
import time
import traceback

# Variables that libraries read while they are loaded; a call that changes one of them needs a process of its own.
READ_ON_LOADING = ("LD_", "GOMP_", "OMP_", "KMP_", "MKL_", "MALLOC_", "GLIBC_", "ATEN_")
KEPT_DESCRIPTORS = 3
MOST_DESCRIPTORS = 4096


@functools.cache
def entry(program):
    """The function fovea_program of the library beside the program `program`; None if it is not there."""
    library = pathlib.Path(program).resolve().parent.parent / "lib" / "libfovea_program.so"
    if not library.exists():
        return None
    # main.cc sets this for libgomp.
    os.environ.setdefault("GOMP_SPINCOUNT", "5000")
    return ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL | os.RTLD_LAZY).fovea_program


def loading(variables):
    return {name: value for name, value in variables.items() if name.startswith(READ_ON_LOADING)}


def can_fork(program, env=None, cwd=None, **others):
    """Whether a fork answers as a started program does. Threads of torch in this process would be missing in it."""
    if others or "torch" in sys.modules or (env is not None and loading(env) != loading(os.environ)):
        return False
    return entry(program) is not None


def replace_process(function, words, streams, env, cwd):
    """Runs in the child and does not return."""
    code = 70
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(KEPT_DESCRIPTORS, MOST_DESCRIPTORS)
        for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        if cwd is not None:
            os.chdir(cwd)
        if env is not None:
            os.environ.clear()
            os.environ.update(env)
        arguments = (ctypes.c_char_p * (len(words) + 1))(*[os.fsencode(word) for word in words], None)
        code = function(len(words), arguments)
        ctypes.CDLL(None).fflush(None)
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


def converse(data, write, reads, deadline):
    """Writes `data` to the descriptor `write` and returns what each of `reads` gave; closes all of them."""
    got = {read: bytearray() for read in reads}
    rest = memoryview(data)
    with selectors.DefaultSelector() as ready:
        os.set_blocking(write, False)
        ready.register(write, selectors.EVENT_WRITE)
        for read in reads:
            ready.register(read, selectors.EVENT_READ)
        while ready.get_map():
            events = ready.select(max(0, deadline - time.monotonic()))
            if not events:
                raise TimeoutError
            for key, _ in events:
                if key.fd == write:
                    try:
                        rest = rest[os.write(write, rest):]
                    except BrokenPipeError:
                        rest = rest[:0]
                    done = not rest
                else:
                    part = os.read(key.fd, 1 << 16)
                    got[key.fd] += part
                    done = not part
                if done:
                    ready.unregister(key.fd)
                    os.close(key.fd)
    return [bytes(got[read]) for read in reads]


def run_forked(program, words, data, timeout, env=None, cwd=None):
    """Returns like subprocess.run() for the program with the arguments `words` and `data` on standard input."""
    inputs, outputs, errors = os.pipe(), os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        replace_process(entry(program), [program, *words], (inputs[0], outputs[1], errors[1]), env, cwd)
    for end in (inputs[0], outputs[1], errors[1]):
        os.close(end)
    try:
        output, error = converse(data, inputs[1], (outputs[0], errors[0]), time.monotonic() + timeout)
    except BaseException as failure:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if isinstance(failure, TimeoutError):
            raise subprocess.TimeoutExpired([program, *words], timeout) from None
        raise
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return subprocess.CompletedProcess([program, *words], code, output, error)
