"""What says where a landmark is: learned experts, whose word enters the cost of every algorithm."""
