"""TimeDomain: which clock a timer follows."""

from flintstream.common.time_domain import TimeDomain

__all__ = ["TimeDomain"]
