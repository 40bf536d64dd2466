"""What says where a landmark is: experts, and what is made of what they see."""
