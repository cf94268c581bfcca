"""Escapes in the style of public sandbox break-outs: each wants a secret, a forged result, or a hold on the next program.

There is no secret inside: expected values, tokens and files stay outside. So an escape is shown to fail by what it could have got: the
other programs of its batch, the server's streams, a trace in the next program, or values that are not its own.
"""

from __future__ import annotations

import pytest
from sandbox_programs import attacked, program, refused, value

from affine_dagster.environments.sandbox.pool import SandboxPool
from affine_dagster.environments.sandbox.port import Limits, Outcome, Program, Raised, Returned

MARK = "zebra-secret-of-a-neighbour"
NEIGHBOUR = Program(f"def f(a):\n    return len({MARK!r}) + a", "f", ((1,), (2,)))

SEARCHES = {
    "subclasses": "for kind in ().__class__.__base__.__subclasses__():\n    seen.append(repr(vars(kind)))",
    "garbage": "import gc\nfor thing in gc.get_objects():\n    seen.append(repr(thing)[:2000])",
    "frames": """
import sys
frame = sys._getframe()
while frame is not None:
    seen.append(repr(frame.f_locals) + repr(frame.f_globals))
    frame = frame.f_back
""",
    "traceback": "try:\n    1 / 0\nexcept Exception as error:\n    frame = error.__traceback__.tb_frame.f_back\n    seen.append(repr(frame.f_locals))",
    "modules": "import sys\nfor module in list(sys.modules.values()):\n    seen.append(repr(vars(module))[:5000])",
    "builtins": "import builtins\nseen.append(repr(vars(builtins)))",
    "main": "import __main__\nseen.append(repr(vars(__main__)))",
    "descriptors": "import os\nfor number in range(64):\n    try:\n        seen.append(repr(os.read(number, 65536)))\n    except OSError:\n        pass",
    "stdin": "import sys\nseen.append(sys.stdin.read())\nseen.append(repr(sys.__stdin__.buffer.peek()) if sys.__stdin__ else '')",
    "environment": "import os\nseen.append(repr(os.environb))",
    "freed memory": """
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
for near in (id(seen), id(object()), id('x' * 700), libc.malloc(100), libc.malloc(3000), libc.malloc(30_000)):
    for page in range((near & ~0xFFF) - 0x80000, (near & ~0xFFF) + 0x80000, 4096):
        if libc.madvise(ctypes.c_void_p(page), ctypes.c_size_t(4096), 0) == 0:
            seen.append(ctypes.string_at(page, 4096).decode('latin-1'))
""",
    "arguments": "import sys\nseen.append(repr(sys.argv) + repr(sys.orig_argv))",
}


@pytest.mark.parametrize("name", sorted(SEARCHES))
def test_a_search_of_everything_in_reach_finds_no_neighbour(pool: SandboxPool, name: str) -> None:
    body = "seen = []\n" + SEARCHES[name].strip() + "\nreturn [len(seen) > 0, '-'.join(['of', 'a', 'neighbour']) in ''.join(seen)]"
    before, outcome, after = pool.run([NEIGHBOUR, program(body), NEIGHBOUR], Limits(cpu_seconds=5.0, wall_seconds=30.0))
    assert before == after == Outcome("finished", (Returned(len(MARK) + 1), Returned(len(MARK) + 2)))
    if outcome.ending == "finished" and isinstance(outcome.results[0], Returned):
        assert outcome.results[0].value in ([True, False], [False, False])


def test_the_search_would_find_a_secret_that_were_there(pool: SandboxPool) -> None:
    """The searches notice: the same walk finds what the program itself holds."""
    body = "own = 'zebra-secret'\nseen = []\n" + SEARCHES["frames"].strip() + "\nreturn 'zebra-secret' in ''.join(seen)"
    assert value(attacked(pool, program(body))) is True


def test_the_search_of_memory_would_find_what_was_freed(pool: SandboxPool) -> None:
    body = "held = ['-'.join(['zebra', str(n), 'secret']) * 20 for n in range(50)]\ndel held\nseen = []\n" + SEARCHES["freed memory"].strip()
    found = "\ntext = ''.join(seen)\nreturn any('-'.join([str(n), 'secretzebra', str(n)]) in text for n in range(50))"
    outcome = attacked(pool, program(body + found), Limits(cpu_seconds=5.0))
    assert value(outcome) is True


TRACES = {
    "builtins": ("import builtins\nbuiltins.len = lambda x: 99", "return len([1])", 1),
    "modules": ("import math\nmath.pi = 3", "import math\nreturn math.pi > 3", True),
    "new module": ("import sys, types\nsys.modules['left'] = types.ModuleType('left')", "import sys\nreturn 'left' in sys.modules", False),
    "path": ("import sys\nsys.path.insert(0, '/left')", "import sys\nreturn '/left' in sys.path", False),
    "recursion limit": ("import sys\nsys.setrecursionlimit(77)", "import sys\nreturn sys.getrecursionlimit() > 77", True),
    "trace": ("import sys\nsys.settrace(lambda *a: None)", "import sys\nreturn sys.gettrace() is None", True),
    "profile": ("import sys\nsys.setprofile(lambda *a: None)", "import sys\nreturn sys.getprofile() is None", True),
    "audit hook": ("import sys\nsys.addaudithook(lambda *a: (_ for _ in ()).throw(RuntimeError()))", "return 1", 1),
    "signal handler": ("import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)", "import signal\nreturn signal.getsignal(15) == 0", True),
    "environment": ("import os\nos.environ['LEFT'] = '1'", "import os\nreturn 'LEFT' in os.environ", False),
    "atexit": ("import atexit\natexit.register(print, 'left')", "return 1", 1),
    "random state": ("import random\nrandom.seed = lambda *a: None", "import random\nrandom.seed(1)\nreturn random.seed(1) is None and random.random() < 1", True),
    "json": ("import json\njson.dumps = lambda *a, **k: '1'", "import json\nreturn json.dumps([2])", "[2]"),
    "working folder": ("import os\ntry:\n    os.chdir('/python')\nexcept OSError:\n    pass", "import os\nreturn os.getcwd()", "/"),
    "umask": ("import os\ntry:\n    os.umask(0)\nexcept OSError:\n    pass", "return 1", 1),
    "import hook": ("import sys\nsys.meta_path.insert(0, None)", "import bisect\nreturn bisect.bisect([1], 2)", 1),
}


@pytest.mark.parametrize("name", sorted(TRACES))
def test_a_program_leaves_no_trace_in_the_next(pool: SandboxPool, name: str) -> None:
    left, question, answer = TRACES[name]
    first, second = pool.run([program(left + "\nreturn 1"), program(question)], Limits())
    assert value(second) == answer
    assert first.ending in ("finished", "died")


FORGERIES = {
    "json": "import json\njson.dumps = lambda *a, **k: '1'\njson.encoder.JSONEncoder.encode = lambda *a: '1'",
    "os.write": "import os\nreal = os.write\nos.write = lambda n, d: real(n, b'value 1\\n')",
    "struct": "import struct\nstruct.pack = lambda *a: b''",
    "encode": "import sys\nfor m in list(sys.modules.values()):\n    if hasattr(m, 'encode') and hasattr(m, 'NotPlainError'):\n        m.encode = lambda *a: '1'",
    "frame": "import sys\nsys._getframe(1).f_globals['_called'] = lambda *a: b'value 1\\n'",
    "type": "import builtins\nbuiltins.type = lambda *a: int",
    "len": "import builtins\nbuiltins.len = lambda *a: 0",
}


@pytest.mark.parametrize("name", sorted(FORGERIES))
def test_a_forged_reporter_gives_the_forger_its_own_words_at_most(pool: SandboxPool, name: str) -> None:
    """It may report another value than it returned: that is only another wrong answer, and never its neighbour's."""
    outcome = attacked(pool, program(FORGERIES[name] + "\nreturn 7", (), ()))
    assert outcome.ending in ("finished", "died", "output_limit", "cpu_limit")
    assert all(isinstance(one, Raised) or one.value in (1, 7) for one in outcome.results)


LIES = {
    "equal to everything": "class L(int):\n    def __eq__(self, o): return True\n    __hash__ = int.__hash__\nreturn L(3)",
    "of another class": "class L:\n    __class__ = int\n    def __index__(self): return 1\nreturn L()",
    "text that is equal": "class L(str):\n    def __eq__(self, o): return True\n    __hash__ = str.__hash__\nreturn [L('x')]",
    "list that grows": "class L(list):\n    def __iter__(self): return iter([1])\nreturn L()",
    "dictionary with a lying key": "class K(str):\n    def __hash__(self): return 1\nreturn {K('a'): 1}",
    "generator": "return (x for x in [1])",
    "function": "return f",
    "bytes": "return b'1'",
    "set": "return {1}",
    "cycle": "x = []\nx.append(x)\nreturn x",
    "deep": "x = []\nfor _ in range(1000): x = [x]\nreturn x",
}


@pytest.mark.parametrize("name", sorted(LIES))
def test_an_object_that_lies_about_itself_does_not_cross(pool: SandboxPool, name: str) -> None:
    assert refused(attacked(pool, program(LIES[name])), "NotPlain")


SURVIVORS = {
    "thread": "import threading\nthreading.Thread(target=lambda: [None for _ in iter(int, 1)]).start()",
    "daemon": "import os\nif os.fork() == 0:\n    os.setsid()\n    while True: pass",
    "double fork": "import os\nif os.fork() == 0:\n    if os.fork() == 0:\n        while True: pass\n    os._exit(0)",
    "subprocess": "import subprocess\nsubprocess.Popen(['/python/bin/python', '-c', 'while True: pass'])",
    "exec": "import os\nos.execv('/python/bin/python', ['python', '-c', 'print(1)'])",
    "system": "import os\nassert os.system('true') == 0, 'refused'",
    "multiprocessing": "import multiprocessing\nmultiprocessing.Process(target=print).start()",
    "pool": "from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor(1).submit(print).result()",
}


@pytest.mark.parametrize("name", sorted(SURVIVORS))
def test_nothing_outlives_its_program(pool: SandboxPool, name: str) -> None:
    outcome = attacked(pool, program(SURVIVORS[name] + "\nreturn 'alive'"))
    assert refused(outcome, "PermissionError", "RuntimeError", "BlockingIOError", "AssertionError", "OSError", "FileNotFoundError"), outcome


ENDINGS = {
    "SystemExit": "raise SystemExit(0)",
    "KeyboardInterrupt": "raise KeyboardInterrupt",
    "BaseException": "class E(BaseException):\n    def __str__(self): raise RuntimeError('unprintable')\nraise E",
    "hostile metaclass": "class M(type):\n    __name__ = property(lambda c: 1 / 0)\nclass E(Exception, metaclass=M): pass\nraise E",
    "long words": "raise ValueError('x' * 10**7)",
    "finalizer": "class A:\n    def __del__(self):\n        while True: pass\nA()\nreturn 1",
    "generator close": "def g():\n    try:\n        yield 1\n    finally:\n        while True: pass\nnext(g())",
    "abort": "import os\nos.abort()",
    "closed pipe": "import os\nos.closerange(3, 64)\nreturn 1",
    "raised soft limit": "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (10**6, 10**6))\nwhile True: pass",
    "ignored signals": "import signal\nfor n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError): pass\nwhile True: pass",
    "caught everything": "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
}


@pytest.mark.parametrize("name", sorted(ENDINGS))
def test_however_a_program_ends_the_next_begins(pool: SandboxPool, name: str) -> None:
    outcome = attacked(pool, program(ENDINGS[name]))
    assert outcome.ending in ("finished", "died", "cpu_limit")
    assert len(repr(outcome)) < 2000


LOADED = {
    "no function": "g = 1", "not callable": "f = 1", "syntax": "def f(:", "nul": "def f(): return 1\0", "surrogate": "x = '\ud800'\ndef f(): return 1",
    "deep source": "x = " + "(" * 5000 + ")" * 5000, "long chain": "x = " + "-" * 100_000 + "1", "exit": "raise SystemExit(0)", "coding": "# coding: nonsense\n1",
    "future": "from __future__ import nonsense", "import of the project": "import affine_dagster.settings", "import of a package": "import numpy",
}


@pytest.mark.parametrize("name", sorted(LOADED))
def test_a_source_that_gives_no_function_is_not_loaded(pool: SandboxPool, name: str) -> None:
    outcome = attacked(pool, Program(LOADED[name], "f", ((),)))
    assert (outcome.ending in ("not_loaded", "died")) or name == "surrogate"


def test_of_the_servers_own_files_nothing_but_its_code_can_be_read(pool: SandboxPool) -> None:
    """Not even that where programs have a user of their own."""
    body = "import os\nreturn sorted(name for _, _, names in os.walk('/server') for name in names)"
    assert value(attacked(pool, program(body))) == ([] if pool.layers().own_user else ["inside.py", "values.py"])


def test_hash_collisions_cost_the_program_alone(pool: SandboxPool) -> None:
    outcome = attacked(pool, program("class K:\n    def __hash__(self): return 1\nd = {K(): 1 for _ in range(100_000)}\nreturn len(d)"))
    assert outcome.ending == "cpu_limit"


def test_arguments_are_a_calls_own(pool: SandboxPool) -> None:
    """A program that edits its arguments edits a copy."""
    outcome = attacked(pool, program("a.append(1)\nreturn a", ([0], 0), ([0], 0)))
    assert outcome.results == (Returned([0, 1]), Returned([0, 1]))
