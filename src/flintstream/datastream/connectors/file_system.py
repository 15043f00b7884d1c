"""Files as sources and sinks: the public names."""

from __future__ import annotations

from flintstream.connectors.files.compaction import (
    ConcatFileCompactor,
    FileCompactor,
    FileCompactStrategy,
    IdenticalFileCompactor,
    OutputStreamBasedFileCompactor,
    RecordWiseFileCompactor,
)
from flintstream.connectors.files.formats import BulkFormat, FileSplit, LineFormat, StreamFormat
from flintstream.connectors.files.sink_config import (
    BucketAssigner,
    DefaultRollingPolicy,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    RollingPolicy,
)
from flintstream.datastream.connectors.file_sink import FileSink, StreamingFileSink
from flintstream.datastream.connectors.file_source import (
    FileEnumeratorProvider,
    FileSource,
    FileSourceBuilder,
    FileSplitAssignerProvider,
)
from flintstream.datastream.connectors.text_file_sink import TextFileSink, WriteMode

__all__ = [
    "BucketAssigner",
    "BulkFormat",
    "ConcatFileCompactor",
    "DefaultRollingPolicy",
    "FileCompactStrategy",
    "FileCompactor",
    "FileEnumeratorProvider",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplit",
    "FileSplitAssignerProvider",
    "IdenticalFileCompactor",
    "LineFormat",
    "OnCheckpointRollingPolicy",
    "OutputFileConfig",
    "OutputStreamBasedFileCompactor",
    "RecordWiseFileCompactor",
    "RollingPolicy",
    "StreamFormat",
    "StreamingFileSink",
    "TextFileSink",
    "WriteMode",
]
