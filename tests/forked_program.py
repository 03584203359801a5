"""Calls of the program in forks of a process that has loaded libtorch once: a start of the program costs a third of a second
of CPU time, a fork a few milliseconds. A call sees what a started program sees: its arguments, its environment, its working
folder, pipes as standard streams, default signals and no other open file.

python3 forked_program.py PROGRAM CHANNEL: that process, which answers calls that come over the socket CHANNEL."""
import atexit
import contextlib
import ctypes
import functools
import os
import pathlib
import pickle
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time
import traceback

# Variables that libraries read while they are loaded: calls that differ in them share no process.
READ_ON_LOADING = ("LD_", "GOMP_", "OMP_", "KMP_", "MKL_", "MALLOC_", "GLIBC_", "ATEN_", "FOVEA_TEST_DEVICE_")
KEPT_DESCRIPTORS = 3
MOST_DESCRIPTORS = 4096
SIZE = struct.Struct("q")


def library_of(program):
    """The library beside the program `program`, whose function fovea_program is the whole of it."""
    return pathlib.Path(program).resolve().parent.parent / "lib" / "libfovea_program.so"


def received(channel, size):
    parts = b""
    while len(parts) < size:
        part = channel.recv(size - len(parts))
        if not part:
            raise EOFError
        parts += part
    return parts


# The process with the library runs these.

def replace_process(function, words, streams, env, cwd):
    """Runs in the child and does not return."""
    code = 70
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(KEPT_DESCRIPTORS, MOST_DESCRIPTORS)
        for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(env)
        arguments = (ctypes.c_char_p * (len(words) + 1))(*[os.fsencode(word) for word in words], None)
        code = function(len(words), arguments)
        ctypes.CDLL(None).fflush(None)
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


def answer(program, channel):
    """For each call the number of its process, and its wait status once it has ended."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    function = ctypes.CDLL(str(library_of(program)), mode=ctypes.RTLD_GLOBAL | os.RTLD_LAZY).fovea_program
    while True:
        size, streams, _, _ = socket.recv_fds(channel, SIZE.size, 3)
        if not size:
            return
        words, env, cwd = pickle.loads(received(channel, *SIZE.unpack(size)))
        child = os.fork()
        if child == 0:
            replace_process(function, words, streams, env, cwd)
        for stream in streams:
            os.close(stream)
        channel.sendall(SIZE.pack(child))
        channel.sendall(SIZE.pack(os.waitpid(child, 0)[1]))


# A test runs these.

@functools.cache
def channel_to(program, variables):
    """The socket to a process that loaded the library under these variables, (name, value) each."""
    ours, theirs = socket.socketpair()
    # main.cc sets the first for libgomp.
    env = {"GOMP_SPINCOUNT": "5000"} | {k: v for k, v in os.environ.items() if not k.startswith(READ_ON_LOADING)} | dict(variables)
    subprocess.Popen([sys.executable, __file__, program, str(theirs.fileno())], stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
                     env=env)
    theirs.close()
    atexit.register(ours.close)
    return ours


def can_fork(program, env=None, cwd=None, **others):
    """Whether a fork answers as a started program does."""
    return not others and library_of(program).exists()


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
    env = dict(os.environ if env is None else env)
    channel = channel_to(program, tuple(sorted((k, v) for k, v in env.items() if k.startswith(READ_ON_LOADING))))
    inputs, outputs, errors = os.pipe(), os.pipe(), os.pipe()
    theirs = (inputs[0], outputs[1], errors[1])
    request = pickle.dumps(([program, *words], env, os.fspath(os.getcwd() if cwd is None else cwd)))
    socket.send_fds(channel, [SIZE.pack(len(request))], theirs)
    channel.sendall(request)
    for end in theirs:
        os.close(end)
    child, = SIZE.unpack(received(channel, SIZE.size))
    try:
        output, error = converse(data, inputs[1], (outputs[0], errors[0]), time.monotonic() + timeout)
    except BaseException as failure:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        received(channel, SIZE.size)
        if isinstance(failure, TimeoutError):
            raise subprocess.TimeoutExpired([program, *words], timeout) from None
        raise
    code = os.waitstatus_to_exitcode(*SIZE.unpack(received(channel, SIZE.size)))
    return subprocess.CompletedProcess([program, *words], code, output, error)


if __name__ == "__main__":
    answer(sys.argv[1], socket.socket(fileno=int(sys.argv[2])))
