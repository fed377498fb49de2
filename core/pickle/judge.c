/* pickle/judge.c: the tables that tell the class of a global. Sources: torch's _weights_only_unpickler (what tensors
 * need), the names of torch.nn.modules, and the gadgets that picklescan, fickling and modelscan report. */
#include "core/pickle/finding.h"

#include <stdio.h>
#include <string.h>

#define DOTS_MAX        64u
#define PATH_LENGTH_MAX 1024u

/* Names, separated by blanks, that one module holds. */
struct names {
    const char *module, *names;
};

#define STORAGES                                                                                                       \
    "DoubleStorage FloatStorage HalfStorage LongStorage IntStorage ShortStorage CharStorage ByteStorage BoolStorage "  \
    "BFloat16Storage ComplexDoubleStorage ComplexFloatStorage QInt8Storage QUInt8Storage QInt32Storage "               \
    "QUInt4x2Storage QUInt2x4Storage UntypedStorage"
#define TENSORS                                                                                                        \
    " DoubleTensor FloatTensor HalfTensor LongTensor IntTensor ShortTensor CharTensor ByteTensor BoolTensor "          \
    "BFloat16Tensor"

static const struct names tensor_names[] = {
    {"torch", STORAGES TENSORS
     " Tensor Size device layout dtype memory_format strided sparse_coo sparse_csr sparse_csc sparse_bsr sparse_bsc "
     "contiguous_format channels_last channels_last_3d preserve_format per_tensor_affine per_channel_affine "
     "per_tensor_symmetric per_channel_symmetric per_channel_affine_float_qparams bfloat16 bit bits16 bits1x8 bits2x4 "
     "bits4x2 bits8 bool cdouble cfloat chalf complex128 complex32 complex64 double float float16 float32 "
     "float4_e2m1fn_x2 float64 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu half int int1 "
     "int16 int2 int3 int32 int4 int5 int6 int64 int7 int8 long qint32 qint8 quint2x4 quint4x2 quint8 short uint1 "
     "uint16 uint2 uint3 uint32 uint4 uint5 uint6 uint64 uint7 uint8"},
    {"torch.cuda", STORAGES TENSORS},
    {"torch.sparse", TENSORS},
    {"torch.cuda.sparse", TENSORS},
    {"torch.storage", STORAGES " TypedStorage _TypedStorage _UntypedStorage _load_from_bytes"},
    {"torch._utils",
     "_rebuild_tensor _rebuild_tensor_v2 _rebuild_tensor_v3 _rebuild_parameter _rebuild_parameter_with_state "
     "_rebuild_qtensor _rebuild_sparse_tensor _rebuild_sparse_csr_tensor _rebuild_nested_tensor "
     "_rebuild_meta_tensor_no_storage _rebuild_wrapper_subclass _rebuild_device_tensor_from_numpy "
     "_rebuild_device_tensor_from_cpu_tensor _rebuild_xla_tensor"},
    {"torch._tensor", "_rebuild_from_type _rebuild_from_type_v2"},
    {"torch.tensor", "_rebuild_from_type Tensor"},
    {"torch.nn.parameter", "Parameter Buffer UninitializedParameter UninitializedBuffer"},
    {"torch.autograd.variable", "Variable"},
    {"torch.serialization", "_get_layout"},
};

static const struct names container_names[] = {
    {"collections", "OrderedDict defaultdict Counter deque"},
    {"builtins", "set frozenset list dict tuple object slice complex bytearray bytes str int float bool range type"},
    {"__builtin__",
     "set frozenset list dict tuple object slice complex bytearray bytes str unicode int long float bool range xrange "
     "type"},
    {"copy_reg", "_reconstructor __newobj__ __newobj_ex__"},
    {"copyreg", "_reconstructor __newobj__ __newobj_ex__"},
    {"_codecs", "encode"},
    {"numpy.core.multiarray", "_reconstruct scalar"},
    {"numpy._core.multiarray", "_reconstruct scalar"},
    {"numpy.core.numeric", "_frombuffer"},
    {"numpy._core.numeric", "_frombuffer"},
    {"joblib.numpy_pickle", "NumpyArrayWrapper"},
    {"numpy", "ndarray dtype bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 "
              "complex128"},
    {"argparse", "Namespace"},
    {"easydict", "EasyDict"},
    {"addict.addict", "Dict"},
    {"munch", "Munch"},
    {"yacs.config", "CfgNode"},
    {"omegaconf.dictconfig", "DictConfig"},
    {"omegaconf.listconfig", "ListConfig"},
    {"omegaconf.base", "ContainerMetadata Metadata"},
    {"omegaconf.nodes", "AnyNode StringNode IntegerNode FloatNode BooleanNode"},
    {"typing", "Any"},
    {"pathlib", "PosixPath WindowsPath PurePosixPath PureWindowsPath"},
    {"datetime", "datetime date time timedelta"},
    {"uuid", "UUID"},
    {"types", "SimpleNamespace"},
    {"io", "BytesIO StringIO"},
    {"numpy.random._pickle", "__randomstate_ctor __generator_ctor __bit_generator_ctor"},
    {"decimal", "Decimal"},
    {"_io", "BytesIO StringIO"},
    {"torch.jit._pickle", "build_intlist build_doublelist build_boollist build_tensorlist build_tensor_from_id "
                          "restore_type_tag"},
    {"torch.nn.modules.activation",
     "Threshold ReLU RReLU Hardtanh ReLU6 Sigmoid Hardsigmoid Tanh SiLU Mish Hardswish ELU CELU SELU GLU GELU "
     "Hardshrink LeakyReLU LogSigmoid Softplus Softshrink MultiheadAttention PReLU Softsign Tanhshrink Softmin Softmax "
     "Softmax2d LogSoftmax"},
    {"torch.nn.modules.adaptive", "AdaptiveLogSoftmaxWithLoss"},
    {"torch.nn.modules.batchnorm", "BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm LazyBatchNorm1d LazyBatchNorm2d "
                                   "LazyBatchNorm3d"},
    {"torch.nn.modules.channelshuffle", "ChannelShuffle"},
    {"torch.nn.modules.container", "Container Sequential ModuleList ModuleDict ParameterList ParameterDict"},
    {"torch.nn.modules.conv",
     "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d LazyConv1d LazyConv2d LazyConv3d "
     "LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d"},
    {"torch.nn.modules.distance", "PairwiseDistance CosineSimilarity"},
    {"torch.nn.modules.dropout", "Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout"},
    {"torch.nn.modules.flatten", "Flatten Unflatten"},
    {"torch.nn.modules.fold", "Fold Unfold"},
    {"torch.nn.modules.instancenorm", "InstanceNorm1d InstanceNorm2d InstanceNorm3d LazyInstanceNorm1d "
                                      "LazyInstanceNorm2d LazyInstanceNorm3d"},
    {"torch.nn.modules.linear", "Identity Linear NonDynamicallyQuantizableLinear _LinearWithBias Bilinear LazyLinear"},
    {"torch.nn.modules.loss",
     "L1Loss NLLLoss NLLLoss2d PoissonNLLLoss GaussianNLLLoss KLDivLoss MSELoss BCELoss BCEWithLogitsLoss "
     "HingeEmbeddingLoss MultiLabelMarginLoss SmoothL1Loss HuberLoss SoftMarginLoss CrossEntropyLoss "
     "MultiLabelSoftMarginLoss CosineEmbeddingLoss MarginRankingLoss MultiMarginLoss TripletMarginLoss "
     "TripletMarginWithDistanceLoss CTCLoss"},
    {"torch.nn.modules.module", "Module"},
    {"torch.nn.modules.normalization", "LocalResponseNorm CrossMapLRN2d LayerNorm GroupNorm RMSNorm"},
    {"torch.nn.modules.padding",
     "CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d ReflectionPad1d "
     "ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d ZeroPad1d ZeroPad2d "
     "ZeroPad3d"},
    {"torch.nn.modules.pixelshuffle", "PixelShuffle PixelUnshuffle"},
    {"torch.nn.modules.pooling",
     "MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d AvgPool1d AvgPool2d AvgPool3d "
     "FractionalMaxPool2d FractionalMaxPool3d LPPool1d LPPool2d LPPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d "
     "AdaptiveMaxPool3d AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d"},
    {"torch.nn.modules.rnn", "RNNBase RNN LSTM GRU RNNCellBase RNNCell LSTMCell GRUCell"},
    {"torch.nn.modules.sparse", "Embedding EmbeddingBag"},
    {"torch.nn.modules.transformer", "Transformer TransformerEncoder TransformerDecoder TransformerEncoderLayer "
                                     "TransformerDecoderLayer"},
    {"torch.nn.modules.upsampling", "Upsample UpsamplingNearest2d UpsamplingBilinear2d"},
    {"torch.nn.backends.thnn", "_get_thnn_function_backend"},
};

/* Modules that reach the operating system, an interpreter, a loader or the net, with everything below them. Python 2
 * names included: pickle maps them to the new ones. */
static const char dangerous_modules[] =
    "os posix nt ntpath posixpath subprocess _posixsubprocess sys socket _socket socketserver SocketServer shutil pty "
    "tty "
    "runpy importlib _frozen_importlib _frozen_importlib_external imp _imp zipimport pkgutil pkg_resources setuptools "
    "distutils _distutils_hack ensurepip pip venv ctypes _ctypes cffi _cffi_backend pickle _pickle cPickle pickletools "
    "shelve dill cloudpickle jsonpickle marshal code codeop webbrowser commands popen2 bdb pdb cmd trace timeit "
    "profile "
    "cProfile pstats doctest pydoc idlelib lib2to3 test.support antigravity this _osx_support _aix_support _pyrepl "
    "_winapi "
    "winreg "
    "_winreg msvcrt io _io fileinput linecache tempfile glob multiprocessing asyncio concurrent signal _signal "
    "sched atexit faulthandler gc inspect dis site sysconfig platform mmap "
    "fcntl resource pwd grp spwd crypt termios ssl _ssl http httplib BaseHTTPServer SimpleHTTPServer "
    "CGIHTTPServer urllib urllib2 urllib3 requests httpx aiohttp ftplib smtplib smtpd poplib imaplib telnetlib nntplib "
    "xmlrpc xmlrpclib paramiko fabric sqlite3 dbm gdbm dumbdbm readline rlcompleter curses turtle tkinter Tkinter "
    "wsgiref "
    "cgi cgitb cython Cython numba pexpect sh plumbum psutil IPython ipykernel execnet "
    "torch.hub torch.jit torch.package torch.utils.cpp_extension torch.utils.bottleneck torch.utils.collect_env "
    "torch.utils.model_zoo torch._dynamo torch._inductor torch.distributed.run torch.distributed.rpc "
    "torch.distributed.launch torch.distributed.elastic torch.testing torch.fx.experimental torch.utils._config_module "
    "torch.utils.data.datapipes numpy.f2py numpy.distutils numpy.testing";

/* The names that give these away in the middle of an attribute path: `pathlib` `os.system`. */
static const char dangerous_pieces[] =
    "os posix nt subprocess _posixsubprocess sys socket _socket shutil pty runpy importlib ctypes _ctypes pickle "
    "_pickle "
    "cPickle marshal webbrowser pip builtins __builtin__ __builtins__ bdb pdb io _io _os _sys";

/* And inside the name of a module: `six.moves.builtins` `eval`. Fewer, since honest packages hold a module io, or
 * numpy.random._pickle. */
static const char dangerous_submodules[] =
    "os posix nt subprocess sys ctypes runpy builtins __builtin__ __builtins__ _os "
    "_sys";

/* Attributes that run code or lead out of an object, wherever they stand in a path. */
static const char dangerous_attributes[] =
    "__import__ __globals__ __builtins__ __subclasses__ __bases__ __base__ __mro__ __code__ __dict__ __getattribute__ "
    "__getattr__ __setattr__ __delattr__ __call__ __reduce__ __reduce_ex__ __loader__ __spec__ __init_subclass__ "
    "__set_name__ __class__ eval exec compile execfile system popen execve execv execl spawnv spawnl runcode runsource "
    "runcall runctx runstring exec_module load_module import_module resolve_name exec_command execWrapper run_path "
    "run_module check_output Popen";

static const char dangerous_builtins[] =
    "eval exec compile getattr setattr delattr open __import__ apply execfile file input raw_input globals "
    "locals "
    "vars dir reload breakpoint help exit quit map filter reduce buffer memoryview __build_class__ super classmethod "
    "staticmethod property";

static const struct names dangerous_names[] = {
    {"operator", "attrgetter itemgetter methodcaller"},
    {"_operator", "attrgetter itemgetter methodcaller"},
    {"functools", "reduce"},
    {"_functools", "reduce"},
    {"copyreg", "pickle constructor add_extension"},
    {"copy_reg", "pickle constructor add_extension"},
    {"codecs", "open"},
    {"types", "CodeType FunctionType LambdaType ModuleType"},
    {"new", "code function module"},
    {"logging.config", "listen dictConfig fileConfig"},
    {"logging", "FileHandler"},
    {"logging.handlers", "BaseRotatingHandler RotatingFileHandler TimedRotatingFileHandler WatchedFileHandler "
                         "SocketHandler DatagramHandler SysLogHandler SMTPHandler HTTPHandler"},
    {"uuid", "_get_command_stdout _popen"},
    {"joblib", "load"},
    {"joblib.numpy_pickle", "load"},
    {"torch", "load"},
    {"torch.serialization", "load _load _legacy_load"},
    {"numpy", "load loadtxt genfromtxt fromfile memmap savetxt save savez"},
    {"pandas", "read_pickle read_csv eval"},
    {"pandas.io.pickle", "read_pickle"},
    {"sympy", "sympify"},
    {"yaml", "load unsafe_load full_load"},
};

/* Called for every global of a file, and a hostile one has millions: so the whole list is searched at once, not word by
 * word. */
static bool has_word(const char *words, const char *word, size_t n) {
    const char *end = words + strlen(words), *p = words;

    if (n == 0)
        return false;
    while ((p = memmem(p, (size_t)(end - p), word, n)) != NULL) {
        if ((p == words || p[-1] == ' ') && (p + n == end || p[n] == ' '))
            return true;
        p++;
    }
    return false;
}

static bool table_has(const struct names *table, size_t rows, const char *module, const char *name) {
    /* A blank inside a name would match two neighbours of a list. */
    if (strchr(name, ' '))
        return false;
    for (size_t i = 0; i < rows; i++)
        if (strcmp(table[i].module, module) == 0 && has_word(table[i].names, name, strlen(name)))
            return true;
    return false;
}

/* True if a module, or a package that it lies in, is in the list; attributes may follow in the path. */
static bool module_is_dangerous(const char *path) {
    size_t n = 0;

    do {
        n += strcspn(path + n, ".");
        if (has_word(dangerous_modules, path, n))
            return true;
    } while (path[n++]);
    return false;
}

/* True if the path leads through one of the dangerous names, at whatever dot the module ends: `torch`
 * `serialization.load` is `torch.serialization` `load`. The path is changed and put right again. */
static bool passes_dangerous_name(char *path) {
    for (char *dot = strchr(path, '.'); dot; dot = strchr(dot + 1, '.')) {
        char *end = dot + 1 + strcspn(dot + 1, "."), after = *end;
        bool found;

        *dot = *end = 0;
        found = table_has(dangerous_names, CK_ARRAY_LEN(dangerous_names), path, dot + 1);
        *dot = '.';
        *end = after;
        if (found)
            return true;
    }
    return false;
}

/* True if a piece of the dotted path is in the list. */
static bool piece_in(const char *path, const char *words) {
    for (;;) {
        size_t n = strcspn(path, ".");

        if (has_word(words, path, n))
            return true;
        if (!path[n])
            return false;
        path += n + 1;
    }
}

static size_t count_dots(const char *path) {
    size_t n = 0;

    for (; (path = strchr(path, '.')) != NULL; path++)
        n++;
    return n;
}

static bool is_builtins(const char *module) {
    return strcmp(module, "builtins") == 0 || strcmp(module, "__builtin__") == 0 || strcmp(module, "__builtins__") == 0;
}

static bool is_dangerous(const char *module, const char *name) {
    char path[PATH_LENGTH_MAX + 1];

    /* No honest path is that long, and each piece costs a search. */
    if (count_dots(module) + count_dots(name) > DOTS_MAX ||
        snprintf(path, sizeof(path), "%s.%s", module, name) >= (int)sizeof(path))
        return true;
    if (module_is_dangerous(path) || piece_in(name, dangerous_attributes))
        return true;
    if (is_builtins(module))
        return piece_in(name, dangerous_builtins) || piece_in(name, dangerous_pieces);
    /* A dotted name walks through attributes, and what a module imported is one of them. */
    return piece_in(module, dangerous_submodules) || piece_in(name, dangerous_pieces) || passes_dangerous_name(path);
}

/* Classes of TorchScript, which only the code in the same archive defines: Python has no such module to import. */
static bool is_script_class(const char *module) {
    return strncmp(module, "__torch__", 9) == 0 && (module[9] == 0 || module[9] == '.');
}

enum ck_finding_class ck_finding_judge(const char *module, const char *name) {
    if (table_has(tensor_names, CK_ARRAY_LEN(tensor_names), module, name))
        return CK_FINDING_TENSOR;
    if (table_has(container_names, CK_ARRAY_LEN(container_names), module, name))
        return CK_FINDING_CONTAINER;
    if (is_dangerous(module, name))
        return CK_FINDING_DANGEROUS;
    return is_script_class(module) ? CK_FINDING_CONTAINER : CK_FINDING_UNKNOWN;
}
