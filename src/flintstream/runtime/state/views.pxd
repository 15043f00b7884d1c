from flintstream.runtime.state.key_context cimport KeyContext

cdef class StateView:
    cdef readonly KeyContext _backend
    cdef readonly object _table

cdef class ValueStateView(StateView):
    cdef readonly object _default

cdef class HeapValueStateView(ValueStateView):
    cdef readonly dict _entries

cdef class CachedValueStateView(ValueStateView):
    cdef readonly dict _cached
    cdef readonly list _changed
    cdef readonly object _plain

cdef class CopiedDefaultValueStateView(ValueStateView):
    pass

cdef class ListStateView(StateView):
    pass

cdef class ReducingStateView(StateView):
    cdef readonly object _reduce

cdef class AggregatingStateView(StateView):
    cdef readonly object _function

cdef class MapStateView(StateView):
    pass
