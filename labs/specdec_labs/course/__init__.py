"""What an instructor makes of the exercises: starters, the student release and the instructor's version."""
