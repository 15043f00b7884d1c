# cython: language_level=3, annotation_typing=False, boundscheck=False, wraparound=False, cdivision=True
"""The compiled part of `columns`: writes and reads blocks of typed columns. See there for the format."""

from cpython.bool cimport PyBool_Check
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_FromDouble
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE, PyList_New, PyList_SET_ITEM
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE, PyTuple_GetSlice, PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

import pickle

from flintstream.common.types import Row, RowKind
from flintstream.runtime.columns import is_named_tuple
from flintstream.runtime.detach import PLAIN

cdef frozenset plain = PLAIN
cdef object INSERT = RowKind.INSERT
cdef object new_row = object.__new__
cdef object new_tuple = tuple.__new__

cdef extern from "Python.h":
    ctypedef struct PyListObject:
        PyObject** ob_item

    int PyList_CheckExact(object)
    PyObject** PySequence_Fast_ITEMS(object)
    int PyLong_CheckExact(object)
    int PyFloat_CheckExact(object)
    int PyUnicode_CheckExact(object)
    int PyBytes_CheckExact(object)
    int PyTuple_CheckExact(object)
    long long PyLong_AsLongLongAndOverflow(object, int*) except? -1
    object PyLong_FromLongLong(long long)
    int PyUnicode_IS_COMPACT_ASCII(object)
    void* PyUnicode_DATA(object)
    Py_ssize_t PyUnicode_GET_LENGTH(object)
    bytes PyUnicode_AsEncodedString(object, const char*, const char*)
    object PyUnicode_DecodeUTF8(const char*, Py_ssize_t, const char*)
    object PyUnicode_DecodeASCII(const char*, Py_ssize_t, const char*)
    void PyObject_GC_UnTrack(void*)
    void PyObject_GC_Track(void*)

cdef enum:
    MARK = 3
    HAS_TIMESTAMPS = 1
    HAS_KEYS = 2
    WHOLE = 0xFFFF
    DEEPEST = 16
    # Strings from here on may be in a column again and again as the same object: runs of one, and, if they are long, any.
    SHARED_OBJECT = 32
    LONG_OBJECT = 256
    MOST_REPEATED_BYTES = 65536
    # Whether a pickle, which has each object once, is better is seen from the first strings: few objects, that are not short.
    LOOKED_AT = 128
    FEW_OBJECTS = 64
    SHORT = 24


# --- writing ---


cdef struct Buffer:
    char* data
    Py_ssize_t size
    Py_ssize_t room


cdef int reserve(Buffer* out, Py_ssize_t more) except -1:
    cdef Py_ssize_t room
    cdef char* data
    if out.size + more > out.room:
        room = max(out.size + more, 2 * out.room)
        data = <char*> PyMem_Realloc(out.data, room)
        if data == NULL:
            raise MemoryError()
        out.data = data
        out.room = room
    return 0


cdef int put(Buffer* out, const void* data, Py_ssize_t size) except -1:
    reserve(out, size)
    memcpy(out.data + out.size, data, size)
    out.size += size
    return 0


cdef int put_byte(Buffer* out, uint8_t value) except -1:
    return put(out, &value, 1)


cdef int put_narrow(Buffer* out, uint64_t* values, Py_ssize_t count, uint64_t largest) except -1:
    """Writes unsigned integers in as few bytes each as the largest needs: the width, and the integers."""
    cdef Py_ssize_t i
    cdef uint8_t width = 1 if largest <= 0xFF else 2 if largest <= 0xFFFF else 4 if largest <= 0xFFFFFFFF else 8
    cdef char* place
    put_byte(out, width)
    reserve(out, count * width)
    place = out.data + out.size
    if width == 1:
        for i in range(count):
            (<uint8_t*> place)[i] = <uint8_t> values[i]
    elif width == 2:
        for i in range(count):
            memcpy(place + 2 * i, &values[i], 2)
    elif width == 4:
        for i in range(count):
            memcpy(place + 4 * i, &values[i], 4)
    else:
        memcpy(place, values, 8 * count)
    out.size += count * width
    return 0


cdef bint write_integers(Buffer* out, PyObject** items, Py_ssize_t count) except -1:
    cdef Py_ssize_t i
    cdef int overflow = 0
    cdef int64_t value, low = 0, high = 0
    cdef int64_t* found
    found = <int64_t*> PyMem_Malloc(count * sizeof(int64_t))
    if found == NULL:
        raise MemoryError()
    try:
        for i in range(count):
            if not PyLong_CheckExact(<object> items[i]):
                return False
            value = PyLong_AsLongLongAndOverflow(<object> items[i], &overflow)
            if overflow:
                return False
            found[i] = value
            if i == 0:
                low = high = value
            elif value < low:
                low = value
            elif value > high:
                high = value
        if low == high:
            put_byte(out, c"c")
            put(out, &low, 8)
            return True
        put_byte(out, c"i")
        put(out, &low, 8)
        for i in range(count):
            (<uint64_t*> found)[i] = <uint64_t> found[i] - <uint64_t> low
        put_narrow(out, <uint64_t*> found, count, <uint64_t> high - <uint64_t> low)
        return True
    finally:
        PyMem_Free(found)


cdef bint write_floats(Buffer* out, PyObject** items, Py_ssize_t count) except -1:
    cdef Py_ssize_t i
    cdef double value
    put_byte(out, c"d")
    reserve(out, 8 * count)
    for i in range(count):
        if not PyFloat_CheckExact(<object> items[i]):
            return False
        value = PyFloat_AS_DOUBLE(<object> items[i])
        memcpy(out.data + out.size + 8 * i, &value, 8)
    out.size += 8 * count
    return True


cdef bint write_booleans(Buffer* out, PyObject** items, Py_ssize_t count) except -1:
    cdef Py_ssize_t i
    put_byte(out, c"b")
    reserve(out, count)
    for i in range(count):
        if not PyBool_Check(<object> items[i]):
            return False
        out.data[out.size + i] = <object> items[i] is True
    out.size += count
    return True


cdef bint write_nones(Buffer* out, PyObject** items, Py_ssize_t count) except -1:
    cdef Py_ssize_t i
    for i in range(count):
        if <object> items[i] is not None:
            return False
    put_byte(out, c"N")
    return True


cdef class Repeats:
    """Counts the bytes of long objects that a column has several times: a pickle would have them once."""
    cdef Py_ssize_t bytes
    cdef set seen

    def __cinit__(self):
        self.bytes = 0

    cdef bint too_many(self, PyObject* item, PyObject* previous, Py_ssize_t size) except -1:
        """Adds an object; returns whether a pickle is better by now."""
        if item == previous:
            self.bytes += size
        elif size >= LONG_OBJECT:
            if self.seen is None:
                self.seen = set()
            address = <size_t> item
            if address in self.seen:
                self.bytes += size
            else:
                self.seen.add(address)
        return self.bytes > MOST_REPEATED_BYTES


cdef bint are_shared(PyObject** items, Py_ssize_t count) except -1:
    """Returns whether a column of strings begins with few objects that come again and again, so that a pickle is better.
    Either way all of it is written.
    """
    cdef PyObject* seen[FEW_OBJECTS]
    cdef Py_ssize_t i, j, found = 0, total = 0
    if count < LOOKED_AT:
        return False
    for i in range(LOOKED_AT):
        if PyUnicode_CheckExact(<object> items[i]) or PyBytes_CheckExact(<object> items[i]):
            total += len(<object> items[i])
    if total < LOOKED_AT * SHORT:
        return False
    for i in range(LOOKED_AT):
        for j in range(found):
            if seen[j] == items[i]:
                break
        else:
            if found == FEW_OBJECTS:
                return False
            seen[found] = items[i]
            found += 1
    return True


cdef bint write_strings(Buffer* out, PyObject** items, Py_ssize_t count) except -1:
    """Writes the lengths in bytes, then all bytes: of ASCII, or of UTF-8 if a character needs it. Returns False if not all are
    strings, or if long ones are there again and again.
    """
    cdef Py_ssize_t i, size, total = 0
    cdef Repeats repeats = Repeats()
    cdef uint64_t length, longest = 0
    cdef uint64_t* lengths
    cdef bint ascii = True
    cdef bytes encoded
    cdef list others
    if are_shared(items, count):
        return False
    for i in range(count):
        if not PyUnicode_CheckExact(<object> items[i]):
            return False
        if ascii and not PyUnicode_IS_COMPACT_ASCII(<object> items[i]):
            ascii = False
        size = PyUnicode_GET_LENGTH(<object> items[i])
        if size >= SHARED_OBJECT and repeats.too_many(items[i], items[i - 1] if i else NULL, size):
            return False
    if not ascii:
        others = []
        for i in range(count):
            # A lone surrogate, which a string may contain, has no UTF-8.
            encoded = PyUnicode_AsEncodedString(<object> items[i], "utf-8", "surrogatepass")
            others.append(encoded)
        return write_bytes(out, others, c"u")
    lengths = <uint64_t*> PyMem_Malloc(count * sizeof(uint64_t))
    if lengths == NULL:
        raise MemoryError()
    try:
        for i in range(count):
            length = PyUnicode_GET_LENGTH(<object> items[i])
            lengths[i] = length
            longest = max(longest, length)
            total += length
        put_byte(out, c"s")
        put_narrow(out, lengths, count, longest)
        reserve(out, total)
        for i in range(count):
            memcpy(out.data + out.size, PyUnicode_DATA(<object> items[i]), lengths[i])
            out.size += lengths[i]
        return True
    finally:
        PyMem_Free(lengths)


cdef bint write_bytes(Buffer* out, list items, uint8_t kind) except -1:
    cdef Py_ssize_t i, count = PyList_GET_SIZE(items)
    cdef Repeats repeats = Repeats()
    cdef uint64_t length, longest = 0
    cdef uint64_t* lengths
    cdef PyObject* item
    if kind == c"y" and are_shared((<PyListObject*> items).ob_item, count):
        return False
    lengths = <uint64_t*> PyMem_Malloc(count * sizeof(uint64_t))
    if lengths == NULL:
        raise MemoryError()
    try:
        for i in range(count):
            item = PyList_GET_ITEM(items, i)
            if not PyBytes_CheckExact(<object> item):
                return False
            length = PyBytes_GET_SIZE(<object> item)
            if length >= SHARED_OBJECT and repeats.too_many(item, PyList_GET_ITEM(items, i - 1) if i else NULL, length):
                return False
            lengths[i] = length
            longest = max(longest, length)
        put_byte(out, kind)
        put_narrow(out, lengths, count, longest)
        for i in range(count):
            put(out, PyBytes_AS_STRING(<object> PyList_GET_ITEM(items, i)), lengths[i])
        return True
    finally:
        PyMem_Free(lengths)


cdef bint write_elements(Buffer* out, PyObject** sequences, Py_ssize_t count, Py_ssize_t arity, int depth) except -1:
    """Writes a column for each place in lists or tuples of one length."""
    cdef Py_ssize_t i, place
    cdef PyObject** elements = <PyObject**> PyMem_Malloc(count * sizeof(PyObject*))
    if elements == NULL:
        raise MemoryError()
    try:
        for place in range(arity):
            for i in range(count):
                elements[i] = PySequence_Fast_ITEMS(<object> sequences[i])[place]
            if not write_column(out, elements, count, depth + 1):
                return False
        return True
    finally:
        PyMem_Free(elements)


cdef bint write_tuples(Buffer* out, PyObject** items, Py_ssize_t count, int depth) except -1:
    cdef Py_ssize_t i, arity = PyTuple_GET_SIZE(<object> items[0])
    cdef uint16_t written
    if arity >= WHOLE or depth >= DEEPEST:
        return False
    for i in range(count):
        if not PyTuple_CheckExact(<object> items[i]) or PyTuple_GET_SIZE(<object> items[i]) != arity:
            return False
    written = arity
    put_byte(out, c"t")
    put(out, &written, 2)
    return write_elements(out, items, count, arity, depth)


cdef bint write_named_tuples(Buffer* out, PyObject** items, Py_ssize_t count, int depth) except -1:
    cdef Py_ssize_t i
    cdef uint32_t length
    cdef list plain_tuples = []
    cdef bytes reference
    cdef object kind = type(<object> items[0])
    for i in range(count):
        if type(<object> items[i]) is not kind:
            return False
    try:
        reference = pickle.dumps(kind, 5)
    except Exception:
        return False  # A local class.
    for i in range(count):
        # Not `tuple(item)`: the class may iterate in its own way.
        plain_tuples.append(PyTuple_GetSlice(<object> items[i], 0, PyTuple_GET_SIZE(<object> items[i])))
    length = PyBytes_GET_SIZE(reference)
    put_byte(out, c"n")
    put(out, &length, 4)
    put(out, PyBytes_AS_STRING(reference), length)
    return write_tuples(out, (<PyListObject*> plain_tuples).ob_item, count, depth)


cdef bint are_same_names(object names, object others) except -1:
    """Returns whether these are equal tuples of strings, none of them of a class of its own."""
    cdef Py_ssize_t i
    if not PyTuple_CheckExact(names) or not PyTuple_CheckExact(others) or names != others:
        return False
    for i in range(PyTuple_GET_SIZE(names)):
        if not PyUnicode_CheckExact(<object> PyTuple_GET_ITEM(names, i)):
            return False
        if not PyUnicode_CheckExact(<object> PyTuple_GET_ITEM(others, i)):
            return False
    return True


cdef bint write_rows(Buffer* out, PyObject** items, Py_ssize_t count, int depth) except -1:
    """Writes Rows with the same names that are no changes of a changelog."""
    cdef Py_ssize_t i, arity
    cdef object row, fields = (<object> items[0])._fields
    cdef list values, names, rows = []
    cdef uint16_t written
    arity = len((<object> items[0])._values)
    if arity >= WHOLE or depth >= DEEPEST:
        return False
    if fields is not None:
        if not PyTuple_CheckExact(fields) or PyTuple_GET_SIZE(fields) != arity:
            return False
    for i in range(count):
        row = <object> items[i]
        if type(row) is not Row or row._row_kind is not INSERT or not PyList_CheckExact(row._values):
            return False
        values = row._values
        if PyList_GET_SIZE(values) != arity or (row._fields is not fields and not are_same_names(row._fields, fields)):
            return False
        rows.append(values)
    written = arity
    put_byte(out, c"r" if fields is None else c"R")
    put(out, &written, 2)
    if fields is not None:
        names = list(fields)
        if arity and not write_strings(out, (<PyListObject*> names).ob_item, arity):
            return False
    return write_elements(out, (<PyListObject*> rows).ob_item, count, arity, depth)


cdef bint write_column(Buffer* out, PyObject** items, Py_ssize_t count, int depth) except -1:
    """Writes a column; returns False if an item can be changed, or is of a class that is not known."""
    cdef Py_ssize_t start = out.size
    if write_typed(out, items, count, depth):
        return True
    out.size = start
    return write_plain(out, items, count)


cdef bint write_plain(Buffer* out, PyObject** items, Py_ssize_t count) except -1:
    """Writes values of several classes as a pickle. None of them can be changed: so nothing is lost by it that two columns do
    not share them any more.
    """
    cdef Py_ssize_t i
    cdef uint64_t length
    cdef list copied
    cdef bytes data
    for i in range(count):
        if type(<object> items[i]) not in plain:
            return False
    copied = [<object> items[i] for i in range(count)]
    try:
        data = pickle.dumps(copied, 5)
    except Exception:
        return False  # A time zone of a local class, say, of which the whole block's pickle knows what to do.
    length = PyBytes_GET_SIZE(data)
    put_byte(out, c"p")
    put(out, &length, 8)
    put(out, PyBytes_AS_STRING(data), length)
    return True


cdef bint write_typed(Buffer* out, PyObject** items, Py_ssize_t count, int depth) except -1:
    """Writes a column of one class; returns False if its items are of several, or of one that has no columns."""
    cdef object first = <object> items[0]
    cdef Py_ssize_t i
    cdef list copied
    if PyLong_CheckExact(first):
        return write_integers(out, items, count)
    if PyUnicode_CheckExact(first):
        return write_strings(out, items, count)
    if PyTuple_CheckExact(first):
        return write_tuples(out, items, count, depth)
    if PyFloat_CheckExact(first):
        return write_floats(out, items, count)
    if PyBool_Check(first):
        return write_booleans(out, items, count)
    if first is None:
        return write_nones(out, items, count)
    if PyBytes_CheckExact(first):
        copied = [<object> items[i] for i in range(count)]
        return write_bytes(out, copied, c"y")
    if is_named_tuple(type(first)):
        return write_named_tuples(out, items, count, depth)
    if type(first) is Row:
        return write_rows(out, items, count, depth)
    return False


cdef int write_keys(Buffer* out, list keys, list values) except -1:
    """Writes the keys, or where they are among the values: 0 if there are no columns for them."""
    cdef Py_ssize_t i, place, arity, count = PyList_GET_SIZE(keys)
    cdef uint16_t found
    cdef PyObject* first = PyList_GET_ITEM(values, 0)
    cdef PyObject** items = (<PyListObject*> keys).ob_item
    cdef bint same = True
    for i in range(count):
        if items[i] != PyList_GET_ITEM(values, i):
            same = False
            break
    if same:
        found = WHOLE
        put_byte(out, c"=")
        put(out, &found, 2)
        return 1
    if PyTuple_CheckExact(<object> first):
        # All values are tuples of one length: they have been written as such.
        arity = PyTuple_GET_SIZE(<object> first)
        for place in range(arity):
            same = True
            for i in range(count):
                if items[i] != PyTuple_GET_ITEM(<object> PyList_GET_ITEM(values, i), place):
                    same = False
                    break
            if same:
                found = place
                put_byte(out, c"=")
                put(out, &found, 2)
                return 1
    return write_column(out, items, count, 0)


def encode(list values, list timestamps, list keys):
    """Returns the block, or None if it cannot be written as columns."""
    cdef Buffer out
    cdef Py_ssize_t count = PyList_GET_SIZE(values)
    cdef uint32_t written = count
    cdef bint done
    if count == 0 or count > 0xFFFFFFFF:
        return None
    if timestamps is not None and PyList_GET_SIZE(timestamps) != count:
        raise ValueError("a block has as many timestamps as values")
    if keys is not None and PyList_GET_SIZE(keys) != count:
        raise ValueError("a block has as many keys as values")
    out.room = 64 + 16 * count
    out.size = 0
    out.data = <char*> PyMem_Malloc(out.room)
    if out.data == NULL:
        raise MemoryError()
    try:
        put_byte(&out, MARK)
        put_byte(&out, (HAS_TIMESTAMPS if timestamps is not None else 0) | (HAS_KEYS if keys is not None else 0))
        put(&out, &written, 4)
        done = write_column(&out, (<PyListObject*> values).ob_item, count, 0)
        if done and timestamps is not None:
            done = write_integers(&out, (<PyListObject*> timestamps).ob_item, count)
        if done and keys is not None:
            done = write_keys(&out, keys, values)
        return PyBytes_FromStringAndSize(out.data, out.size) if done else None
    finally:
        PyMem_Free(out.data)


# --- reading ---


cdef struct Reader:
    const char* data
    Py_ssize_t place
    Py_ssize_t size


cdef const char* take(Reader* source, Py_ssize_t size) except NULL:
    cdef const char* found = source.data + source.place
    if size < 0 or size > source.size - source.place:
        raise ValueError("a block of columns is cut off")
    source.place += size
    return found


cdef uint8_t take_byte(Reader* source) except? 255:
    return (<const uint8_t*> take(source, 1))[0]


cdef uint8_t next_byte(Reader* source) noexcept:
    """Returns the next byte without taking it; 0 at the end."""
    return (<const uint8_t*> source.data)[source.place] if source.place < source.size else 0


cdef inline uint64_t narrow(const char* data, Py_ssize_t i, uint8_t width) noexcept:
    cdef uint64_t value = 0
    memcpy(&value, data + i * width, width)
    return value


cdef uint8_t take_width(Reader* source) except? 255:
    cdef uint8_t width = take_byte(source)
    if width != 1 and width != 2 and width != 4 and width != 8:
        raise ValueError(f"a block of columns has integers of {width} bytes")
    return width


cdef inline void place_item(list column, Py_ssize_t i, object item) noexcept:
    Py_INCREF(item)
    PyList_SET_ITEM(column, i, item)


cdef list read_integers(Reader* source, Py_ssize_t count):
    cdef Py_ssize_t i
    cdef uint64_t low
    cdef uint8_t width
    cdef const char* data
    cdef list column
    memcpy(&low, take(source, 8), 8)
    width = take_width(source)
    data = take(source, count * width)
    column = PyList_New(count)
    if width == 1:
        for i in range(count):
            place_item(column, i, PyLong_FromLongLong(<int64_t> (low + (<const uint8_t*> data)[i])))
    elif width == 2:
        for i in range(count):
            place_item(column, i, PyLong_FromLongLong(<int64_t> (low + narrow(data, i, 2))))
    elif width == 4:
        for i in range(count):
            place_item(column, i, PyLong_FromLongLong(<int64_t> (low + narrow(data, i, 4))))
    else:
        for i in range(count):
            place_item(column, i, PyLong_FromLongLong(<int64_t> (low + narrow(data, i, 8))))
    return column


cdef list read_same(object item, Py_ssize_t count):
    cdef Py_ssize_t i
    cdef list column = PyList_New(count)
    for i in range(count):
        place_item(column, i, item)
    return column


cdef list read_floats(Reader* source, Py_ssize_t count):
    cdef Py_ssize_t i
    cdef double value
    cdef const char* data = take(source, 8 * count)
    cdef list column = PyList_New(count)
    for i in range(count):
        memcpy(&value, data + 8 * i, 8)
        place_item(column, i, PyFloat_FromDouble(value))
    return column


cdef list read_booleans(Reader* source, Py_ssize_t count):
    cdef Py_ssize_t i
    cdef const char* data = take(source, count)
    cdef list column = PyList_New(count)
    for i in range(count):
        place_item(column, i, True if data[i] else False)
    return column


cdef list read_strings(Reader* source, Py_ssize_t count, uint8_t kind):
    cdef Py_ssize_t i
    cdef uint64_t length
    cdef uint8_t width = take_width(source)
    cdef const char* lengths = take(source, count * width)
    cdef const char* data
    cdef object item
    cdef list column = []
    for i in range(count):
        length = narrow(lengths, i, width)
        data = take(source, length) if length else lengths
        if kind == c"s":
            item = PyUnicode_DecodeASCII(data, length, NULL)
        elif kind == c"u":
            item = PyUnicode_DecodeUTF8(data, length, "surrogatepass")
        else:
            item = PyBytes_FromStringAndSize(data, length)
        column.append(item)
    return column


cdef list read_tuples(Reader* source, Py_ssize_t count, int depth):
    cdef Py_ssize_t i, place
    cdef uint16_t arity
    cdef list columns = [], column
    cdef tuple made
    cdef bint atoms = True
    memcpy(&arity, take(source, 2), 2)
    if depth >= DEEPEST:
        raise ValueError("a block of columns has tuples in tuples in tuples")
    for place in range(arity):
        atoms = atoms and next_byte(source) not in (c"t", c"n", c"r", c"R")
        columns.append(read_column(source, count, depth + 1))
    if arity == 0:
        return read_same((), count)
    column = PyList_New(count)
    # The collector must not see it before it is filled.
    PyObject_GC_UnTrack(<void*> column)
    for i in range(count):
        made = PyTuple_New(arity)
        place_item(column, i, made)
        for place in range(arity):
            item = <object> PyList_GET_ITEM(<list> PyList_GET_ITEM(columns, place), i)
            Py_INCREF(item)
            PyTuple_SET_ITEM(made, place, item)
        if atoms:
            # Numbers and strings are in no cycle: the collector finds that out by itself, later.
            PyObject_GC_UnTrack(<void*> made)
    PyObject_GC_Track(<void*> column)
    return column


cdef list read_named_tuples(Reader* source, Py_ssize_t count, int depth):
    cdef Py_ssize_t i
    cdef uint32_t length
    cdef list found = []
    memcpy(&length, take(source, 4), 4)
    kind = pickle.loads(PyBytes_FromStringAndSize(take(source, length), length))
    if not is_named_tuple(kind) or take_byte(source) != c"t":
        raise ValueError(f"a block has a column of named tuples of {kind!r}, which is no class of such")
    for values in read_tuples(source, count, depth):
        found.append(new_tuple(kind, values))
    return found


cdef list read_rows(Reader* source, Py_ssize_t count, int depth, bint named):
    cdef Py_ssize_t i, place
    cdef uint16_t arity
    cdef list columns = [], rows = [], values
    cdef object fields = None, row
    memcpy(&arity, take(source, 2), 2)
    if depth >= DEEPEST:
        raise ValueError("a block of columns has Rows in Rows in Rows")
    if named:
        fields = tuple(read_column(source, arity, depth + 1)) if arity else ()
    for place in range(arity):
        columns.append(read_column(source, count, depth + 1))
    for i in range(count):
        values = PyList_New(arity)
        for place in range(arity):
            place_item(values, place, <object> PyList_GET_ITEM(<list> PyList_GET_ITEM(columns, place), i))
        row = new_row(Row)
        row._values = values
        row._fields = fields
        row._row_kind = INSERT
        rows.append(row)
    return rows


cdef list read_plain(Reader* source, Py_ssize_t count):
    cdef uint64_t length
    memcpy(&length, take(source, 8), 8)
    column = pickle.loads(PyBytes_FromStringAndSize(take(source, length), length))
    if type(column) is not list or len(column) != count:
        raise ValueError(f"a block has a column that is no list of {count} values")
    return column


cdef list read_column(Reader* source, Py_ssize_t count, int depth):
    cdef uint8_t kind = take_byte(source)
    cdef int64_t value
    if kind == c"i":
        return read_integers(source, count)
    if kind == c"c":
        memcpy(&value, take(source, 8), 8)
        return read_same(PyLong_FromLongLong(value), count)
    if kind == c"s" or kind == c"u" or kind == c"y":
        return read_strings(source, count, kind)
    if kind == c"t":
        return read_tuples(source, count, depth)
    if kind == c"n":
        return read_named_tuples(source, count, depth)
    if kind == c"r" or kind == c"R":
        return read_rows(source, count, depth, kind == c"R")
    if kind == c"d":
        return read_floats(source, count)
    if kind == c"p":
        return read_plain(source, count)
    if kind == c"b":
        return read_booleans(source, count)
    if kind == c"N":
        return read_same(None, count)
    raise ValueError(f"a block has a column of an unknown kind, {kind}")


cdef list read_keys(Reader* source, list values):
    cdef Py_ssize_t i, count = PyList_GET_SIZE(values)
    cdef uint16_t place
    cdef list column
    if next_byte(source) != c"=":
        return read_column(source, count, 0)
    take_byte(source)
    memcpy(&place, take(source, 2), 2)
    if place == WHOLE:
        return list(values)
    column = PyList_New(count)
    for i in range(count):
        value = <object> PyList_GET_ITEM(values, i)
        if not PyTuple_CheckExact(value) or place >= PyTuple_GET_SIZE(value):
            raise ValueError(f"a block of columns has keys at position {place} of its values, which have none there")
        place_item(column, i, <object> PyTuple_GET_ITEM(value, place))
    return column


def decode(data):
    """Returns the values, the timestamps, the keys, and how many bytes they took."""
    cdef const unsigned char[::1] view = memoryview(data).cast("B")
    cdef Reader source
    cdef uint32_t count
    cdef uint8_t flags
    cdef list values, timestamps = None, keys = None
    source.data = <const char*> &view[0]
    source.place = 1
    source.size = view.shape[0]
    flags = take_byte(&source)
    memcpy(&count, take(&source, 4), 4)
    values = read_column(&source, count, 0)
    if flags & HAS_TIMESTAMPS:
        timestamps = read_column(&source, count, 0)
    if flags & HAS_KEYS:
        keys = read_keys(&source, values)
    return values, timestamps, keys, source.place
