"""What an agent of CAGE-2 sees and does, and the champion."""
