"""Callables that attackers put into pickles: what picklescan, fickling and modelscan have samples of, and what their advisories name. Each appears
once, in turns by every opcode that calls and in every container that holds a pickle."""

from assemble import (call, dict_, entry, global_, legacy, legacy_tensor, npy, pickle, short_text, stack_global, state_dict, text, torch_tar,
                      torch_zip, tuple_, zip_file)  # fmt: skip

# module, names. The command of the payload is the one argument of each.
GADGETS = """
builtins: eval exec compile open __import__ getattr setattr globals breakpoint
__builtin__: eval execfile apply file reload input
os: system popen execv execve spawnl posix_spawn fork kill remove rename startfile putenv
posix: system popen
nt: system popen
subprocess: Popen call run check_output check_call getoutput getstatusoutput
commands: getoutput getstatusoutput
popen2: popen3
pty: spawn
sys: exit settrace setprofile
socket: socket create_connection
shutil: rmtree move copyfile
ctypes: CDLL PyDLL cdll.LoadLibrary
_ctypes: dlopen call_function
cffi: FFI
runpy: run_path run_module _run_code
importlib: import_module reload
importlib._bootstrap: _call_with_frames_removed
importlib.machinery: SourceFileLoader SourceFileLoader.load_module
pkgutil: resolve_name get_loader
imp: load_source
zipimport: zipimporter
code: InteractiveInterpreter InteractiveInterpreter.runcode interact
codeop: compile_command
bdb: Bdb.run
pdb: run Pdb.run
cProfile: run runctx
profile: run Profile.run Profile.runctx
trace: Trace.run Trace.runctx
timeit: timeit Timer main
doctest: debug_script
pydoc: locate pipepager tempfilepager
webbrowser: open get
ensurepip: _run_pip bootstrap
pip: main
pip._internal.cli.main: main
venv: create
distutils.file_util: write_file
distutils.spawn: spawn
setuptools.sandbox: run_setup
idlelib.pyshell: ModifiedInterpreter.runcode ModifiedInterpreter.runcommand
idlelib.run: Executive.runcode
idlelib.autocomplete: AutoComplete.get_entity
idlelib.calltip: Calltip.fetch_tip get_entity
idlelib.debugobj: ObjectTreeItem.SetText
lib2to3.pgen2.grammar: Grammar.loads
lib2to3.pgen2.pgen: ParserGenerator.make_label
test.support.script_helper: assert_python_ok
asyncio.unix_events: _UnixSubprocessTransport._start
asyncio: create_subprocess_shell run
multiprocessing.util: spawnv_passfds
multiprocessing.pool: Pool
concurrent.futures: ProcessPoolExecutor
uuid: _get_command_stdout
_osx_support: _read_output _find_build_tool
_aix_support: _read_cmd_output
_pyrepl.pager: pipe_pager
platform: popen
pickle: loads load Unpickler
_pickle: loads
cPickle: loads
marshal: loads load
shelve: open
dill: loads load
dill._dill: _create_code _create_function _import_module
cloudpickle.cloudpickle: _make_function _builtin_type loads
joblib: load
jsonpickle: decode
types: CodeType FunctionType
operator: attrgetter itemgetter methodcaller
functools: reduce
codecs: open
io: FileIO open open_code
_io: FileIO
logging: FileHandler
logging.config: listen fileConfig
linecache: getline
tempfile: mkstemp NamedTemporaryFile
fileinput: FileInput
http.client: HTTPConnection
urllib.request: urlopen urlretrieve
requests: get
requests.api: get
aiohttp.client: ClientSession
ftplib: FTP
smtplib: SMTP
imaplib: IMAP4
poplib: POP3
telnetlib: Telnet
xmlrpc.client: ServerProxy
ssl: get_server_certificate
socketserver: TCPServer
sqlite3: connect
signal: signal raise_signal
atexit: register
gc: get_objects
inspect: getattr_static
numpy: load loadtxt genfromtxt fromfile memmap
numpy.testing._private.utils: runstring exec_mod_from_location
numpy.testing: runstring
numpy.f2py.crackfortran: getlincoef param_eval _eval_length _eval_scalar
numpy.distutils.exec_command: exec_command
pandas: read_pickle read_csv eval
yaml: unsafe_load
torch: load
torch.serialization: load
torch.hub: load download_url_to_file load_state_dict_from_url
torch.jit: load
torch.package: PackageImporter
torch.jit.unsupported_tensor_ops: execWrapper
torch._dynamo.guards: GuardBuilder.get
torch._inductor.codecache: compile_file
torch.fx.experimental.symbolic_shapes: ShapeEnv.evaluate_guards_expression
torch.utils._config_module: ConfigModule.load_config
torch.utils.bottleneck.__main__: run_autograd_prof run_cprofile
torch.utils.collect_env: run
torch.utils.cpp_extension: load load_inline
torch.utils.data.datapipes.utils.decoder: basichandlers
torch.distributed.rpc: rpc_sync
six.moves.builtins: eval
"""

# Names that hide the module or the callable in a path.
DISGUISED = [
    ("builtins", "eval.__call__"), ("pathlib", "os.system"), ("torch", "os.system"), ("torch.serialization", "os.system"), ("numpy", "os.system"),
    ("numpy.core.multiarray", "os.system"), ("collections", "_sys.modules"), ("torch.nn.modules.linear", "Linear.__init__.__globals__"),
    ("torch._utils", "torch.serialization.os.system"), ("torch", "hub.load"), ("torch", "serialization.load"),
    ("collections", "OrderedDict.__class__.__base__.__subclasses__"), ("pathlib", "Path.__class__.mro"), ("os.path", "os.system"),
    ("os", "path.os.system"), ("builtins", "object.__subclasses__"), ("builtins", "getattr.__call__"), ("__main__", "__builtins__.eval"),
]  # fmt: skip

# Reads or writes files, or the net, but by a library that honest checkpoints name too: reported as an unknown global that is called.
CALLED = [
    ("pathlib", "Path.write_text"), ("pathlib", "Path.unlink"), ("functools", "partial"), ("zipfile", "ZipFile.extractall"), ("tarfile", "open"),
    ("gzip", "open"), ("pandas", "read_json"), ("matplotlib.pyplot", "savefig"), ("never.heard.of", "it"), ("__main__", "Payload"),
]  # fmt: skip


def by_reduce(module, name, command):
    return call(global_(module, name), text(command))


def by_stack_global(module, name, command):
    return call(stack_global(module, name), text(command))


def by_inst(module, name, command):
    return b"(" + text(command) + b"i" + module.encode() + b"\n" + name.encode() + b"\n"


def by_obj(module, name, command):
    return b"(" + global_(module, name) + text(command) + b"o"


def by_newobj(module, name, command):
    return global_(module, name) + tuple_(text(command)) + b"\x81"


def by_newobj_ex(module, name, command):
    return global_(module, name) + tuple_(text(command)) + dict_(shell=b"\x88") + b"\x92"


def by_build(module, name, command):
    """The called thing is what __setstate__ becomes."""
    object_ = global_("torch.nn.modules.linear", "Linear") + b")\x81"
    return object_ + dict_(__setstate__=global_(module, name)) + b"b" + text(command) + b"b"


def by_popped_obj(module, name, command):
    return by_obj(module, name, command) + b"0" + b"N"


def by_memo(module, name, command):
    """Fetched from the memo under a number far away, with other values in between."""
    return global_(module, name) + b"r\xf0\xff\xff\x00" + b"0" + b"N0" + call(b"j\xf0\xff\xff\x00", text(command))


def by_map(module, name, command):
    return call(
        global_("builtins", "list"),
        call(global_("builtins", "map"), global_(module, name), b"](" + text(command) + b"e"),
    )


CALLS = [by_reduce, by_stack_global, by_inst, by_obj, by_newobj, by_newobj_ex, by_build, by_popped_obj, by_memo, by_map]


def in_zip(body):
    return torch_zip(state_dict(x=body))


def in_legacy(body):
    return legacy(dict_(w=legacy_tensor(), x=body))


def in_tar(body):
    return torch_tar(dict_(w=b"P1\n", x=body))


def in_pickle(body):
    return pickle(body, protocol=4)


def in_npy(body):
    return npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", pickle(body))


def in_script(body):
    rows = [
        entry("m/data.pkl", pickle(state_dict(x=body))),
        entry("m/data/0", b"\0" * 16),
        entry("m/constants.pkl", pickle(b")")),
    ]
    return zip_file(rows + [entry("m/code/__torch__.py", b"class M(Module):\n  pass\n"), entry("m/version", b"3\n")])


CONTAINERS = [in_zip, in_legacy, in_tar, in_pickle, in_npy, in_script]


def named():
    for line in GADGETS.strip().splitlines():
        module, names = line.split(": ")
        for name in names.split():
            yield module, name
    yield from DISGUISED


def samples(command):
    """(name, bytes, expectations) as generate.py describes them."""
    for number, (module, name) in enumerate(named()):
        how, where = CALLS[number % len(CALLS)], CONTAINERS[number // 2 % len(CONTAINERS)]
        yield (
            f"gadget-{module}-{name}.{how.__name__}.{where.__name__}",
            where(how(module, name, command)),
            [f"dangerous:{module}.{name}"],
        )
    for how in CALLS:
        for where in CONTAINERS:
            for module, name in (("posix", "system"), ("builtins", "eval")):
                sample = f"call-{module}-{name}.{how.__name__}.{where.__name__}"
                yield sample, where(how(module, name, command)), [f"dangerous:{module}.{name}"]
    for number, (module, name) in enumerate(CALLED):
        yield (
            f"called-{module}-{name}",
            CONTAINERS[number % 2](by_reduce(module, name, command)),
            [f"called:{module}.{name}"],
        )
    yield from chains(command)
    yield from honest()


def honest():
    """What looks a little like the above, and is not."""
    path = global_("pathlib", "PosixPath") + tuple_(text("/"), text("os.system")) + b"R"
    parts = {
        "path": path,
        "text": text("os.system('true'); builtins eval __import__"),
        "namespace": call(global_("argparse", "Namespace")) + dict_(eval=text("exec")) + b"b",
        "set": call(global_("builtins", "set"), b"](" + text("os") + b"e"),
        "bytes": call(global_("_codecs", "encode"), text("cposix\nsystem\n."), text("latin1")),
        "defaultdict": call(global_("collections", "defaultdict"), global_("builtins", "list")),
        "module": global_("torch.nn.modules.linear", "Linear") + b")\x81" + dict_(_parameters=b"}", eval=b"N") + b"b",
    }
    for name, part in parts.items():
        yield f"honest-{name}", in_zip(part), ["clean"]
        yield f"honest-{name}.legacy", in_legacy(part), ["clean"]
    yield "honest-tar", torch_tar(dict_(w=b"P1\n")), ["clean"]


def chains(command):
    """Several calls that only together do harm."""
    getattr_ = global_("builtins", "getattr")
    importer = call(global_("importlib", "import_module"), text("os"))
    yield (
        "chain-getattr",
        in_zip(call(call(getattr_, importer, text("system")), text(command))),
        ["dangerous:builtins.getattr", "dangerous:importlib.import_module"],
    )
    subclasses = call(call(getattr_, global_("builtins", "object"), text("__subclasses__")))
    yield "chain-subclasses", in_zip(subclasses), ["dangerous:builtins.getattr"]
    library = call(call(getattr_, call(global_("ctypes", "CDLL"), b"N"), text("system")), text(command))
    yield "chain-ctypes", in_pickle(library), ["dangerous:ctypes.CDLL"]
    locate = call(call(global_("pydoc", "locate"), text("os.system")), text(command))
    yield "chain-pydoc", in_legacy(locate), ["dangerous:pydoc.locate"]
    resolve = call(call(global_("pkgutil", "resolve_name"), text("os:system")), text(command))
    yield "chain-pkgutil", in_zip(resolve), ["dangerous:pkgutil.resolve_name"]
    code = call(call(global_("types", "FunctionType"), call(global_("marshal", "loads"), b"C\3abc"), b"}"))
    yield "chain-marshal", in_pickle(code), ["dangerous:marshal.loads", "dangerous:types.FunctionType"]
    partial = call(call(global_("functools", "partial"), global_("os", "system")), text(command))
    yield "chain-partial", in_zip(partial), ["dangerous:os.system"]
    caller = call(call(global_("operator", "methodcaller"), text("system"), text(command)), importer)
    yield "chain-methodcaller", in_zip(caller), ["dangerous:operator.methodcaller"]
    default = call(global_("collections", "defaultdict"), global_("os", "getcwd"))
    yield "chain-defaultdict", in_zip(default), ["dangerous:os.getcwd"]
    reconstruct = call(
        global_("copyreg", "_reconstructor"), global_("subprocess", "Popen"), global_("builtins", "object"), b"N"
    )
    yield "chain-reconstructor", in_zip(reconstruct), ["dangerous:subprocess.Popen"]
    hooked = call(
        global_("torch._utils", "_rebuild_from_type_v2"),
        global_("os", "system"),
        global_("torch", "Tensor"),
        tuple_(text(command)),
        b"N",
    )
    yield "chain-rebuild-from-type", in_zip(hooked), ["dangerous:os.system"]
    yield (
        "chain-add-extension",
        in_zip(call(global_("copyreg", "add_extension"), text("os"), text("system"), b"K\1")),
        ["dangerous:copyreg.add_extension"],
    )
    glued = call(call(global_("builtins", "getattr"), text(""), text("join")), b"](" + text("o") + text("s") + b"e")
    yield (
        "name-glued",
        in_pickle(call(glued + short_text("system") + b"\x93", text(command))),
        ["dangerous:builtins.getattr"],
    )
    joined = call(global_("_codecs", "encode"), text("os"), text("latin1"))
    yield (
        "name-computed",
        in_pickle(call(joined + short_text("system") + b"\x93", text(command))),
        ["refused|dangerous|structure"],
    )
