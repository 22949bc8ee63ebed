"""The parameters of jobs: defaults, limits, and what a change means."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rowtide.cdc.errors.jobs import (
    ContinuousInvalid,
    JobTypeUnknown,
    MaxscansInvalid,
    MaxtransInvalid,
    ParameterNotInteger,
    ParameterOfCapture,
    ParameterOfCleanup,
    ParameterUnknown,
    PollingIntervalInvalid,
    PollingNotContinuous,
    RetentionInvalid,
    ScheduleInvalid,
    ThresholdInvalid,
)
from rowtide.cdc.jobs.definitions import (
    SQL_SERVER_DEFAULTS,
    JobParameters,
    JobType,
    changed_parameters,
    new_parameters,
    parse_parameters,
)
from rowtide.core.errors import RowtideError

CAPTURE, CLEANUP = JobType
DOCUMENTED = SQL_SERVER_DEFAULTS[CAPTURE]
NOTHING = JobParameters()


def test_capture_has_no_limits_unless_they_are_asked_for() -> None:
    assert new_parameters(CAPTURE, NOTHING) == JobParameters(continuous=True)


def test_cleanup_keeps_three_days_and_is_due_at_two() -> None:
    assert new_parameters(CLEANUP, NOTHING) == JobParameters(retention=4320, schedule="0 2 * * *")


def test_sql_server_s_defaults_are_the_documented_ones() -> None:
    assert new_parameters(CAPTURE, NOTHING, has_sql_server_defaults=True) == JobParameters(
        maxtrans=500, maxscans=10, continuous=True, pollinginterval=5
    )
    cleanup = new_parameters(CLEANUP, NOTHING, has_sql_server_defaults=True)
    assert (cleanup.retention, cleanup.threshold) == (4320, 5000)


def test_what_is_given_goes_over_the_defaults() -> None:
    given = JobParameters(maxtrans=7)
    assert new_parameters(CAPTURE, given, has_sql_server_defaults=True) == replace(DOCUMENTED, maxtrans=7)


def test_a_new_job_that_is_not_continuous_does_not_poll() -> None:
    given = JobParameters(continuous=False)
    assert new_parameters(CAPTURE, given).pollinginterval == 0
    assert new_parameters(CAPTURE, given, has_sql_server_defaults=True).pollinginterval == 0


def test_a_new_job_that_is_not_continuous_takes_no_interval() -> None:
    with pytest.raises(PollingNotContinuous):
        new_parameters(CAPTURE, JobParameters(continuous=False, pollinginterval=1))


@pytest.mark.parametrize(
    ("job_type", "given", "error", "problem"),
    [
        (CAPTURE, JobParameters(maxtrans=0), MaxtransInvalid, "maxtrans cannot be 0"),
        (CAPTURE, JobParameters(maxtrans=2**31), MaxtransInvalid, "maxtrans cannot be 2147483648"),
        (CAPTURE, JobParameters(maxscans=0), MaxscansInvalid, "maxscans cannot be 0"),
        (CAPTURE, JobParameters(pollinginterval=-1), PollingIntervalInvalid, "pollinginterval cannot be -1"),
        (CAPTURE, JobParameters(pollinginterval=86_400), PollingIntervalInvalid, "pollinginterval cannot be 86400"),
        (CAPTURE, JobParameters(retention=1), ParameterOfCleanup, "the capture job has no retention"),
        (CAPTURE, JobParameters(threshold=1), ParameterOfCleanup, "the capture job has no threshold"),
        (CAPTURE, JobParameters(schedule="0 2 * * *"), ParameterOfCleanup, "the capture job has no schedule"),
        (CLEANUP, JobParameters(retention=0), RetentionInvalid, "retention cannot be 0"),
        (CLEANUP, JobParameters(retention=52_594_801), RetentionInvalid, "retention cannot be 52594801"),
        (CLEANUP, JobParameters(threshold=0), ThresholdInvalid, "threshold cannot be 0"),
        (CLEANUP, JobParameters(maxtrans=1), ParameterOfCapture, "the cleanup job has no maxtrans"),
        (CLEANUP, JobParameters(maxscans=1), ParameterOfCapture, "the cleanup job has no maxscans"),
        (CLEANUP, JobParameters(continuous=False), ParameterOfCapture, "the cleanup job has no continuous"),
        (CLEANUP, JobParameters(pollinginterval=0), ParameterOfCapture, "the cleanup job has no pollinginterval"),
        (CLEANUP, JobParameters(schedule="at two"), ScheduleInvalid, "Wrong number of fields"),
        (CLEANUP, JobParameters(schedule="0 25 * * *"), ScheduleInvalid, "expression '25'"),
        (CLEANUP, JobParameters(schedule="0 2 * * 0"), ScheduleInvalid, "weekdays are written by name"),
    ],
)
def test_invalid_job_value_is_refused_on_create_and_on_change(
    job_type: JobType, given: JobParameters, error: type[RowtideError], problem: str
) -> None:
    with pytest.raises(error, match=problem):
        new_parameters(job_type, given)
    with pytest.raises(error, match=problem):
        changed_parameters(job_type, new_parameters(job_type, NOTHING), given)


@pytest.mark.parametrize(
    ("job_type", "given"),
    [
        (CAPTURE, JobParameters(maxtrans=1, maxscans=1, pollinginterval=0)),
        (CAPTURE, JobParameters(pollinginterval=86_399)),
        (CLEANUP, JobParameters(retention=1, threshold=1, schedule="30 1 * * sun")),
        (CLEANUP, JobParameters(retention=52_594_800)),
    ],
)
def test_the_limits_themselves_are_taken(job_type: JobType, given: JobParameters) -> None:
    new_parameters(job_type, given)


@pytest.mark.parametrize(
    ("present", "change", "found"),
    [
        (DOCUMENTED, NOTHING, DOCUMENTED),
        (DOCUMENTED, JobParameters(maxscans=3), replace(DOCUMENTED, maxscans=3)),
        (DOCUMENTED, JobParameters(continuous=False), replace(DOCUMENTED, continuous=False, pollinginterval=0)),
        (
            DOCUMENTED,
            JobParameters(continuous=False, pollinginterval=9),
            replace(DOCUMENTED, continuous=False, pollinginterval=0),
        ),
        (
            replace(DOCUMENTED, continuous=False, pollinginterval=0),
            JobParameters(pollinginterval=9),
            replace(DOCUMENTED, pollinginterval=9),
        ),
        (
            replace(DOCUMENTED, continuous=False, pollinginterval=0),
            JobParameters(pollinginterval=0),
            replace(DOCUMENTED, continuous=False, pollinginterval=0),
        ),
    ],
)
def test_job_change_keeps_other_values_and_adapts_the_interval(
    present: JobParameters, change: JobParameters, found: JobParameters
) -> None:
    assert changed_parameters(CAPTURE, present, change) == found


def test_parameters_are_written_as_name_and_value() -> None:
    assert parse_parameters(["maxtrans=10", "continuous = 0"]) == JobParameters(maxtrans=10, continuous=False)
    assert parse_parameters(["schedule=0 3 * * *"]) == JobParameters(schedule="0 3 * * *")


@pytest.mark.parametrize(
    ("text", "error", "problem"),
    [
        ("maxtrans", ParameterUnknown, '"maxtrans" does not set a parameter'),
        ("speed=9", ParameterUnknown, '"speed=9" does not set a parameter'),
        ("maxtrans=many", ParameterNotInteger, '"many" is not a value of maxtrans'),
        ("continuous=2", ContinuousInvalid, "continuous cannot be 2"),
    ],
)
def test_what_is_no_parameter_is_refused(text: str, error: type[RowtideError], problem: str) -> None:
    with pytest.raises(error, match=problem):
        parse_parameters([text])


def test_a_job_is_named_by_its_type() -> None:
    assert JobType.parse("Capture") is CAPTURE
    with pytest.raises(JobTypeUnknown):
        JobType.parse("backup")
