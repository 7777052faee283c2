"""The part of include/pstar.h that carries out plans, through ctypes."""
import ctypes
import os
import pathlib

NO_INDEX, NO_ADDRESS = 2**32 - 1, 2**64 - 1


class Error(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("message", ctypes.c_char * 1024)]


class Operator(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("on_host", ctypes.c_bool),
                ("seconds", ctypes.c_double), ("access_count", ctypes.c_uint32)]


class Access(ctypes.Structure):
    _fields_ = [("list", ctypes.c_char_p), ("tensor", ctypes.c_uint32), ("reads", ctypes.c_bool),
                ("writes", ctypes.c_bool), ("block", ctypes.c_uint32)]


class Chunk(ctypes.Structure):
    _fields_ = [("list", ctypes.c_char_p), ("slot_bytes", ctypes.c_uint64),
                ("copy_bytes", ctypes.c_uint64)]


class Action(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_char_p), ("chunk", ctypes.c_uint32),
                ("address", ctypes.c_uint64)]


class Copy(ctypes.Structure):
    _fields_ = [("chunk", ctypes.c_uint32), ("device_address", ctypes.c_uint64),
                ("host_address", ctypes.c_uint64), ("copy_bytes", ctypes.c_uint64),
                ("slot_bytes", ctypes.c_uint64)]


_COPY, _AFTER, _SELF = ctypes.POINTER(Copy), ctypes.c_void_p, ctypes.c_void_p


class Mover(ctypes.Structure):
    _fields_ = [
        ("fetch", ctypes.CFUNCTYPE(ctypes.c_uint64, _SELF, _COPY, _AFTER)),
        ("write_back", ctypes.CFUNCTYPE(ctypes.c_uint64, _SELF, _COPY, ctypes.c_bool, _AFTER)),
        ("allocate", ctypes.CFUNCTYPE(None, _SELF, _COPY)),
        ("drop", ctypes.CFUNCTYPE(None, _SELF, ctypes.c_uint32)),
        ("move", ctypes.CFUNCTYPE(ctypes.c_uint64, _SELF, _COPY, ctypes.c_uint64, _AFTER)),
        ("run", ctypes.CFUNCTYPE(ctypes.c_uint64, _SELF, ctypes.c_uint32, _AFTER, _SELF))]


_POINTER, _U32, _U64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
_FUNCTIONS = {  # name: result, arguments
    "plan_read": (_POINTER, ctypes.c_char_p, ctypes.POINTER(Error)),
    "plan_free": (None, _POINTER),
    "plan_trace": (_POINTER, _POINTER, _POINTER, ctypes.POINTER(Error)),
    "plan_layout": (_POINTER, _POINTER),
    "plan_host_pool_bytes": (_U64, _POINTER),
    "plan_host_address": (_U64, _POINTER, _U32),
    "plan_initial_address": (_U64, _POINTER, _U32),
    "plan_actions": (_U32, _POINTER, _U32),
    "plan_action": (Action, _POINTER, _U32, _U32),
    "plan_figure": (ctypes.c_bool, _POINTER, ctypes.c_char_p, ctypes.POINTER(ctypes.c_double)),
    "trace_read": (_POINTER, ctypes.c_char_p, ctypes.POINTER(Error)),
    "trace_free": (None, _POINTER),
    "trace_moments": (_U32, _POINTER),
    "trace_tensors": (_U32, _POINTER),
    "trace_tensor_name": (ctypes.c_char_p, _POINTER, _U32),
    "trace_operator": (Operator, _POINTER, _U32),
    "trace_access": (Access, _POINTER, _U32, _U32),
    "layout_chunks": (_U32, _POINTER),
    "layout_chunk": (Chunk, _POINTER, _U32),
    "layout_find": (ctypes.c_bool, _POINTER, ctypes.c_char_p, _U32, _U32, ctypes.POINTER(_U32),
                    ctypes.POINTER(_U64)),
    "execution_new": (_POINTER, _POINTER, _POINTER, ctypes.POINTER(Mover), _SELF,
                      ctypes.POINTER(Error)),
    "execution_free": (None, _POINTER),
    "execution_load": (None, _POINTER),
    "execution_step": (None, _POINTER, _U32),
    "execution_flush": (None, _POINTER),
    "execution_address": (_U64, _POINTER, _U32),
}


def _path():
    """Returns the path of libpstar-core.so: beside this package, as pstar installs and builds it,
    or where PSTAR_LIBRARY says."""
    if "PSTAR_LIBRARY" in os.environ:
        return os.environ["PSTAR_LIBRARY"]
    package = pathlib.Path(__file__).parent
    for folder in (package.parent, package.resolve().parents[1] / "build"):
        if (folder / "libpstar-core.so").exists():
            return str(folder / "libpstar-core.so")
    return "libpstar-core.so"


class Library:
    """Calls pstar_NAME(...) as NAME(...). Functions that take an error raise ValueError."""

    def __init__(self):
        try:
            library = ctypes.CDLL(_path())
        except OSError as error:
            raise OSError(f"pstar's library is missing ({error}): install pstar, or set "
                          "PSTAR_LIBRARY to the path of libpstar-core.so") from None
        for name, (result, *arguments) in _FUNCTIONS.items():
            function = getattr(library, f"pstar_{name}")
            function.restype, function.argtypes = result, arguments
            fails = arguments[-1:] == [ctypes.POINTER(Error)]
            setattr(self, name, self._checked(function) if fails else function)

    @staticmethod
    def _checked(function):
        def call(*arguments):
            error = Error()
            result = function(*arguments, ctypes.byref(error))
            if not result:
                raise ValueError(error.message.decode(errors="replace"))
            return result
        return call
