# compare: sorted-no-prefix
# Word count with function classes and two subtasks; the records are Rows with named fields.
from flintstream.common import Row, Types
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.functions import FlatMapFunction, KeySelector, ReduceFunction


class Tokenizer(FlatMapFunction):
    def flat_map(self, value):
        for token in value.lower().replace(",", " ").replace(".", " ").split():
            yield Row(word=token, count=1)


class ByWord(KeySelector):
    def get_key(self, value):
        return value.word


class Add(ReduceFunction):
    def reduce(self, value1, value2):
        return Row(word=value1.word, count=value1.count + value2.count)


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    row = Types.ROW_NAMED(["word", "count"], [Types.STRING(), Types.LONG()])
    text = env.from_collection(["The cat, the dog.", "A dog and a cat.", "The end."], Types.STRING())
    counts = text.flat_map(Tokenizer(), output_type=row).key_by(ByWord(), key_type=Types.STRING()).reduce(Add())
    counts.print()
    env.execute("word_count_classes")


if __name__ == "__main__":
    main()
