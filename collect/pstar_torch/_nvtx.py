"""NVTX: the work of its header in a C program."""
import ctypes
import functools

DECLARATION, ITERATION, OPERATOR = 1, 2, 3  # categories of the domain "pstar"


class Attributes(ctypes.Structure):
    """nvtxEventAttributes_t"""
    _fields_ = [("version", ctypes.c_uint16), ("size", ctypes.c_uint16),
                ("category", ctypes.c_uint32), ("color_type", ctypes.c_int32),
                ("color", ctypes.c_uint32), ("payload_type", ctypes.c_int32),
                ("reserved", ctypes.c_int32), ("payload", ctypes.c_uint64),
                ("message_type", ctypes.c_int32), ("message", ctypes.c_void_p)]


_GetTable = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p),
                             ctypes.POINTER(ctypes.c_uint))
_GetExport = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)


class _Callbacks(ctypes.Structure):
    """NvtxExportTableCallbacks"""
    _fields_ = [("size", ctypes.c_size_t), ("get_table", _GetTable)]


class Nvtx:
    """The domain "pstar" in the tool that NVTX_INJECTION64_PATH names."""
    CALLBACKS = 1                # NVTX_ETID_CALLBACKS
    SIZES = {1: 16, 5: 16}       # functions of the modules CORE and CORE2
    PAYLOAD_UINT64, ASCII, REGISTERED = 1, 1, 3
    kept = []                    # the tool has pointers to all of it until the process ends

    def __init__(self, library):
        tables = {}
        for module, size in self.SIZES.items():
            slots = (ctypes.c_void_p * size)()
            table = (ctypes.c_void_p * (size + 1))(
                *(ctypes.addressof(slots) + i * ctypes.sizeof(ctypes.c_void_p)
                  for i in range(size)))
            tables[module] = slots, table

        def get_table(module, table, size):
            if module not in tables:
                return 0
            table[0] = ctypes.addressof(tables[module][1])
            size[0] = self.SIZES[module]
            return 1

        callbacks = _Callbacks(ctypes.sizeof(_Callbacks), _GetTable(get_table))
        export = _GetExport(
            lambda which: ctypes.addressof(callbacks) if which == self.CALLBACKS else None)
        tool = ctypes.CDLL(library)
        self.kept.append((tables, callbacks, export, tool))
        initialize = tool.InitializeInjectionNvtx2
        initialize.argtypes = [_GetExport]
        if not initialize(export):
            raise RuntimeError(f"{library} records nothing")
        slots = tables[5][0]
        attributes = ctypes.POINTER(Attributes)

        def function(slot, result, *arguments):
            if not slots[slot]:
                raise RuntimeError(f"{library} lacks function {slot} of NVTX's domains")
            return ctypes.CFUNCTYPE(result, *arguments)(slots[slot])

        handle = ctypes.c_void_p
        self._mark = function(1, None, handle, attributes)
        name_category = function(8, None, handle, ctypes.c_uint32, ctypes.c_char_p)
        self._register = function(10, handle, handle, ctypes.c_char_p)
        self.domain = function(12, handle, ctypes.c_char_p)(b"pstar")
        # Called around every operator, so without Python frames in between.
        self.start, self.end, self.push, self.pop = (
            functools.partial(call, self.domain) for call in (
                function(2, ctypes.c_uint64, handle, attributes),
                function(3, None, handle, ctypes.c_uint64),
                function(4, ctypes.c_int, handle, attributes), function(5, ctypes.c_int, handle)))
        for category, name in enumerate((b"declaration", b"iteration", b"operator"), 1):
            name_category(self.domain, category, name)

    def event(self, category, text, payload):
        """Returns attributes that can be passed to push and start repeatedly."""
        message = self._register(self.domain, text.encode())
        return Attributes(3, ctypes.sizeof(Attributes), category, 0, 0, self.PAYLOAD_UINT64, 0,
                           payload, self.REGISTERED, message)

    def declare(self, text, payload=0):
        line = text.replace("\n", " ").encode()
        attributes = Attributes(3, ctypes.sizeof(Attributes), DECLARATION, 0, 0,
                                 self.PAYLOAD_UINT64, 0, payload, self.ASCII,
                                 ctypes.cast(ctypes.c_char_p(line), ctypes.c_void_p))
        self._mark(self.domain, attributes)
