"""What low precision costs: exact laws of rounded softmaxes, quantised races and rounded verification."""
