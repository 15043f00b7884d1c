# compare: exact
# CSV files by a schema of DataTypes: what is read, and what is written again.
import glob
import os
import tempfile

from flintstream.common import Types, WatermarkStrategy
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.connectors.file_system import FileSink, FileSource
from flintstream.datastream.formats.csv import CsvBulkWriters, CsvReaderFormat, CsvSchema
from flintstream.table import DataTypes

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
directory = tempfile.mkdtemp()
outputs = {}


def show(name, builder, text):
    schema = builder.build()
    path = os.path.join(directory, name + ".csv")
    with open(path, "w") as file:
        file.write(text)
    source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), path).build()
    rows = env.from_source(source, WatermarkStrategy.no_watermarks(), name)
    with rows.map(lambda row: str(row), Types.STRING()).execute_and_collect() as results:
        for line in results:
            print(name, line)
    source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), path).build()
    outputs[name] = os.path.join(directory, name)
    sink = FileSink.for_bulk_format(outputs[name], CsvBulkWriters.for_schema(schema)).build()
    env.from_source(source, WatermarkStrategy.no_watermarks(), name).sink_to(sink)
    env.execute()
    for part in sorted(glob.glob(outputs[name] + "/*/*")):
        with open(part) as file:
            print(name, repr(file.read()))


show(
    "types",
    CsvSchema.builder()
    .add_number_column("tiny", DataTypes.TINYINT())
    .add_number_column("small", DataTypes.SMALLINT())
    .add_number_column("int", DataTypes.INT())
    .add_number_column("big", DataTypes.BIGINT())
    .add_number_column("float", DataTypes.FLOAT())
    .add_number_column("double", DataTypes.DOUBLE())
    .add_number_column("whole", DataTypes.DECIMAL(2, 0))
    .add_number_column("money", DataTypes.DECIMAL(5, 2))
    .add_boolean_column("flag")
    .add_string_column("text"),
    "127,-32767,2147483647,-9223372036854775808,0.5,2e-308,1.5,1.005,true,string\n"
    "1,2,3,4,-1,1e10,2.5,-2.345,no,a b\n"
    "1,2,3,4,1e7,0.001,12345,123456.7,TRUE,x\n",
)
show(
    "arrays and quotes",
    CsvSchema.builder()
    .add_array_column("numbers", ";", DataTypes.INT())
    .add_array_column("flags", ":", DataTypes.BOOLEAN())
    .add_array_column("texts", ",", DataTypes.STRING())
    .set_column_separator("|"),
    '1;2;3|true:false|"a,b,c"\n|true|\n',
)
show(
    "texts",
    CsvSchema.builder().add_string_column("a").add_string_column("b").set_escape_char("\\").set_use_header(),
    'h1,h2\nabc,"x,y"\n"a longer text than twenty-four",é\nshort!,"say ""hi"""\na\\\\b,-\n"",#\n',
)
show(
    "nulls",
    CsvSchema.builder()
    .add_string_column("a")
    .add_number_column("b", DataTypes.INT())
    .set_null_value("null")
    .set_line_separator("\r\n"),
    "null,1\nx,null\n",
)
