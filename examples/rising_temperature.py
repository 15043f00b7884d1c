"""An alarm when a sensor's temperature rises for one second: a timer by the clock.

The first rise sets a timer, a fall takes it back. So the alarm comes even if the sensor says nothing more. The sensors
have no end: the program waits for the first alarm and cancels the job.
"""

import time

from flintstream.common import Types
from flintstream.datastream import KeyedProcessFunction, SourceFunction, StreamExecutionEnvironment
from flintstream.datastream.state import ValueStateDescriptor

READING = Types.TUPLE([Types.STRING(), Types.DOUBLE()])


class Sensors(SourceFunction):
    """The fridge warms up for a moment and cools from then on; the oven gets hotter all the time."""

    running = True

    def run(self, ctx):
        for degrees in (5.0, 5.4, 4.9):
            ctx.collect(("fridge", degrees))
        step = 0
        while self.running:
            ctx.collect(("fridge", 4.8 - step / 100))
            ctx.collect(("oven", 20.0 + step))
            step += 1
            time.sleep(0.1)

    def cancel(self):
        self.running = False


class RisingForOneSecond(KeyedProcessFunction):
    def open(self, runtime_context):
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.DOUBLE()))
        self.timer = runtime_context.get_state(ValueStateDescriptor("timer", Types.LONG()))

    def process_element(self, reading, ctx):
        last, degrees = self.last.value(), reading[1]
        self.last.update(degrees)
        timer = self.timer.value()
        if last is None or degrees <= last:
            if timer is not None:
                ctx.timer_service().delete_processing_time_timer(timer)
                self.timer.clear()
        elif timer is None:
            timer = ctx.timer_service().current_processing_time() + 1000
            ctx.timer_service().register_processing_time_timer(timer)
            self.timer.update(timer)  # Stays until the next fall: one alarm for each rise, however long.

    def on_timer(self, timestamp, ctx):
        yield f"{ctx.get_current_key()}: rising for one second"


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    readings = env.add_source(Sensors(), "sensors", READING)
    alarms = readings.key_by(lambda reading: reading[0], Types.STRING()).process(RisingForOneSecond(), Types.STRING())

    with alarms.execute_and_collect("rising temperature") as results:
        print(next(results))


if __name__ == "__main__":
    main()
