cimport cython
from flintstream.runtime.state.key_context cimport KeyContext


cdef class RecordContext:
    cdef public KeyContext _state
    cdef public object _timestamp


@cython.locals(pairs=bint, same=bint, results=list, plain=frozenset)
cpdef list map_records(object function, object records)

@cython.locals(results=list, plain=frozenset)
cpdef list map_keyed(object function, object records, object keys, KeyContext state)

@cython.locals(pairs=bint, same=bint, values=list, plain=frozenset)
cpdef process_records(
    object function, object records, object keys, KeyContext state, RecordContext context, object emit, object emit_aside
)

@cython.locals(pairs=bint, same=bint, values=list, times=list, plain=frozenset)
cpdef process_timed_records(
    object function, object records, object keys, list timestamps, KeyContext state, RecordContext context, object emit,
    object emit_aside
)

@cython.locals(results=list, plain=frozenset)
cpdef list reduce_records(object function, object records, object keys, KeyContext state, object table)

cpdef reduce_into(dict contents, object keys, object records, KeyContext state, object function)

cpdef aggregate_into(dict contents, object keys, object records, KeyContext state, object create, object add)

@cython.locals(found=list)
cpdef append_into(dict contents, object keys, object records)

cpdef list known_targets(dict known, list keys)

@cython.locals(place=Py_ssize_t)
cpdef spread_records(list values, list keys, list targets, list value_lists, list key_lists)

cpdef spread(list items, list targets, list lists)
