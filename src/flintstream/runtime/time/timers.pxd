from flintstream.runtime.state.key_context cimport KeyContext

cdef class TimerQueue:
    cdef public list _heap
    cdef public dict _new
    cdef public dict _stored
    cdef public Py_ssize_t _deleted
    cdef public list _removed
    cdef public object _fired
    cpdef add(self, object timestamp, object key)
    cpdef remove(self, object timestamp, object key)

cdef class TimeView:
    cdef public object _operator
    cdef public object current_processing_time
    cdef public object watermark

cdef class TimerService(TimeView):
    cdef public KeyContext _state
    cdef public TimerQueue event
    cdef public TimerQueue processing
    cdef public bint quiesced
