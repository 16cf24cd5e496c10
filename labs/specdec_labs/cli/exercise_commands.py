"""The commands about exercises and their options: start, check, hint, grade, course build."""

from pathlib import Path
from typing import Annotated

import typer

from specdec_labs.cli.bad_input import explained

TaskName = Annotated[
    str | None, typer.Option(help="A task (E03.chain) or a set (E03). Default: what the file defines.")
]
Timeout = Annotated[float | None, typer.Option(help="Seconds for each function. Default: 20.")]


@explained
def start(
    exercise: Annotated[str, typer.Argument(help="For example E01.")],
    directory: Annotated[Path | None, typer.Option(help="Folder instead of work/.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="A new starter beside an existing file.")] = False,
) -> None:
    """Begin an exercise: copies the starter to a place that git ignores."""
    from specdec_labs.cli.start import start as start_exercise

    start_exercise(exercise, directory, fresh=fresh)


@explained
def check(
    path: Annotated[Path, typer.Argument(help="Your file or notebook.")],
    exercise: TaskName = None,
    timeout: Timeout = None,
    hidden_seed: Annotated[int | None, typer.Option(help="Also check fresh random cases from this seed.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write the reports as JSON.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write the reports as JUnit XML.")] = None,
) -> None:
    """Check your answers: which property fails, on which example, and which mistake it looks like."""
    from specdec_labs.cli.grading import check_command

    code = check_command(path, exercise, json_path=json, junit_path=junit, timeout_s=timeout, hidden_seed=hidden_seed)
    raise typer.Exit(code)


@explained
def grade(
    submission: Annotated[Path, typer.Argument(help="A .py file or a notebook.")],
    out: Annotated[Path | None, typer.Option(help="Folder for NAME.json, NAME.xml (JUnit) and NAME.csv.")] = None,
    exercise: TaskName = None,
    timeout: Timeout = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the hidden cases. Default: a fresh one.")] = None,
    public_only: Annotated[bool, typer.Option("--public-only", help="Run no hidden cases.")] = False,
    hidden: Annotated[Path | None, typer.Option(help="An instructor's file of held-back cases.")] = None,
) -> None:
    """Grade a submission in a process of its own, hidden cases included; exit code 1 when a property fails."""
    from specdec_labs.cli.grading import grade_command

    code = grade_command(
        submission,
        exercise,
        out=out,
        timeout_s=timeout,
        seed=seed,
        public_only=public_only,
        hidden_path=hidden,
    )
    raise typer.Exit(code)


@explained
def hint(
    task: Annotated[str, typer.Argument(help="For example E03.chain.")],
    level: Annotated[int, typer.Option(help="1 a nudge, 2 the idea, 3 pseudocode.")] = 1,
    solution: Annotated[bool, typer.Option("--solution", help="Show the reference solution.")] = False,
) -> None:
    """Help with a task, a step at a time; what was shown is noted for you, nothing is deducted."""
    from specdec_labs.cli.start import print_hint

    print_hint(task, level, solution)


@explained
def course_build(
    out: Annotated[Path, typer.Option(help="Folder for student/ and instructor/; must not exist yet.")],
) -> None:
    """Make the student release and the instructor's version of every set, with nbgrader metadata."""
    from specdec_labs.course.build import build_course

    for path in build_course(out):
        typer.echo(path)


def add_exercise_commands(app: typer.Typer) -> None:
    """Adds them to the command line."""
    for command in (start, check, hint, grade):
        app.command()(command)
    course = typer.Typer(name="course", help="For instructors.", no_args_is_help=True)
    course.command(name="build")(course_build)
    app.add_typer(course)
