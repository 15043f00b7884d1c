cdef class EntryCache:
    cdef public object _place
    cdef public object _store
    cdef public object _keys
    cdef public object _codec
    cdef public bint _stored
    cdef public dict _live
    cdef public object _live_get
    cdef public set _gathered
    cdef public list _marked
    cdef public object _mark_dirty
    cdef public Py_ssize_t _loaded
