cdef class SharedBuffer:
    cdef public object entries
