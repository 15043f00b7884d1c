"""Files: paths of all file systems, lines and formats, part files and their compaction."""
