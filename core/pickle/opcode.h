/* pickle/opcode.h: the 68 opcodes of pickle protocols 0 to 5, as a table. Source: CPython's Lib/pickletools.py. */
#ifndef CK_PICKLE_OPCODE_H
#define CK_PICKLE_OPCODE_H

/* How the argument lies behind the opcode. All numbers are little-endian but for BINFLOAT. */
enum ck_argument {
    CK_ARGUMENT_NONE,
    CK_ARGUMENT_U1, /* unsigned, 1 byte */
    CK_ARGUMENT_U2,
    CK_ARGUMENT_I4, /* signed, 4 bytes */
    CK_ARGUMENT_U4,
    CK_ARGUMENT_U8,
    CK_ARGUMENT_F8,       /* IEEE 754 double, big-endian */
    CK_ARGUMENT_COUNTED1, /* a length of 1 byte, then as many bytes */
    CK_ARGUMENT_COUNTED4,
    CK_ARGUMENT_COUNTED4S, /* the length is signed; negative ones are refused */
    CK_ARGUMENT_COUNTED8,
    CK_ARGUMENT_NUMBER, /* a line with a number */
    CK_ARGUMENT_NAMES,  /* two lines: module and name */
    CK_ARGUMENT_LINE,   /* a line of any length */
};

/* clang-format off */
#define CK_OPCODES(X) \
    /* NAME           code  argument   operation */ \
    X(MARK,             0x28, NONE,      mark)             \
    X(EMPTY_TUPLE,      0x29, NONE,      empty_tuple)      \
    X(STOP,             0x2e, NONE,      stop)             \
    X(POP,              0x30, NONE,      pop)              \
    X(POP_MARK,         0x31, NONE,      pop_mark)         \
    X(DUP,              0x32, NONE,      dup)              \
    X(BINBYTES,         0x42, COUNTED4,  bytes)            \
    X(SHORT_BINBYTES,   0x43, COUNTED1,  bytes)            \
    X(FLOAT,            0x46, NUMBER,    float_line)       \
    X(BINFLOAT,         0x47, F8,        float_binary)     \
    X(INT,              0x49, NUMBER,    int_line)         \
    X(BININT,           0x4a, I4,        int_binary)       \
    X(BININT1,          0x4b, U1,        int_binary)       \
    X(LONG,             0x4c, NUMBER,    long_line)        \
    X(BININT2,          0x4d, U2,        int_binary)       \
    X(NONE,             0x4e, NONE,      none)             \
    X(PERSID,           0x50, LINE,      persid_line)      \
    X(BINPERSID,        0x51, NONE,      persid)           \
    X(REDUCE,           0x52, NONE,      reduce)           \
    X(STRING,           0x53, LINE,      string_line)      \
    X(BINSTRING,        0x54, COUNTED4S, text)             \
    X(SHORT_BINSTRING,  0x55, COUNTED1,  text)             \
    X(UNICODE,          0x56, LINE,      unicode_line)     \
    X(BINUNICODE,       0x58, COUNTED4,  text)             \
    X(EMPTY_LIST,       0x5d, NONE,      empty_list)       \
    X(APPEND,           0x61, NONE,      append)           \
    X(BUILD,            0x62, NONE,      build)            \
    X(GLOBAL,           0x63, NAMES,     global)           \
    X(DICT,             0x64, NONE,      dict)             \
    X(APPENDS,          0x65, NONE,      appends)          \
    X(GET,              0x67, NUMBER,    get_line)         \
    X(BINGET,           0x68, U1,        get)              \
    X(INST,             0x69, NAMES,     inst)             \
    X(LONG_BINGET,      0x6a, U4,        get)              \
    X(LIST,             0x6c, NONE,      list)             \
    X(OBJ,              0x6f, NONE,      obj)              \
    X(PUT,              0x70, NUMBER,    put_line)         \
    X(BINPUT,           0x71, U1,        put)              \
    X(LONG_BINPUT,      0x72, U4,        put)              \
    X(SETITEM,          0x73, NONE,      setitem)          \
    X(TUPLE,            0x74, NONE,      tuple)            \
    X(SETITEMS,         0x75, NONE,      setitems)         \
    X(EMPTY_DICT,       0x7d, NONE,      empty_dict)       \
    X(PROTO,            0x80, U1,        proto)            \
    X(NEWOBJ,           0x81, NONE,      newobj)           \
    X(EXT1,             0x82, U1,        extension)        \
    X(EXT2,             0x83, U2,        extension)        \
    X(EXT4,             0x84, I4,        extension)        \
    X(TUPLE1,           0x85, NONE,      tuple1)           \
    X(TUPLE2,           0x86, NONE,      tuple2)           \
    X(TUPLE3,           0x87, NONE,      tuple3)           \
    X(NEWTRUE,          0x88, NONE,      true)             \
    X(NEWFALSE,         0x89, NONE,      false)            \
    X(LONG1,            0x8a, COUNTED1,  long_binary)      \
    X(LONG4,            0x8b, COUNTED4S, long_binary)      \
    X(SHORT_BINUNICODE, 0x8c, COUNTED1,  text)             \
    X(BINUNICODE8,      0x8d, COUNTED8,  text)             \
    X(BINBYTES8,        0x8e, COUNTED8,  bytes)            \
    X(EMPTY_SET,        0x8f, NONE,      empty_set)        \
    X(ADDITEMS,         0x90, NONE,      additems)         \
    X(FROZENSET,        0x91, NONE,      frozenset)        \
    X(NEWOBJ_EX,        0x92, NONE,      newobj_ex)        \
    X(STACK_GLOBAL,     0x93, NONE,      stack_global)     \
    X(MEMOIZE,          0x94, NONE,      memoize)          \
    X(FRAME,            0x95, U8,        frame)            \
    X(BYTEARRAY8,       0x96, COUNTED8,  bytes)            \
    X(NEXT_BUFFER,      0x97, NONE,      next_buffer)      \
    X(READONLY_BUFFER,  0x98, NONE,      readonly_buffer)
/* clang-format on */

#endif
