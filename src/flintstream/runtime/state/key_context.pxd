cdef class KeyContext:
    cdef public object current_key
