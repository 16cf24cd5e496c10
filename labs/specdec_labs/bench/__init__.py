"""Speed-ups measured and predicted: drafters by name, interleaved arms, disjoint halves of the prompts."""
