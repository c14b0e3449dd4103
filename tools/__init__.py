"""What a model can call: schemas, argument checks, tools that read a graph, results as compact text."""
