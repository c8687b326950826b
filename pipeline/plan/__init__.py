"""What a plan is: stages and their traits, the legal language, rewriting, the machine that is planned for."""
