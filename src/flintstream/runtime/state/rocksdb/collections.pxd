from flintstream.runtime.state.views cimport ListStateView, MapStateView

cdef class RocksDBListState(ListStateView):
    pass

cdef class RocksDBMapState(MapStateView):
    pass
