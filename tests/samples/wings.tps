LM=3
10 30.5
20.25 100
-1 -1
CURVES=1
POINTS=2
0 1
199 50
IMAGE=wing 01.png
ID=0
SCALE=0.0045

LM=0
IMAGE=later.png
ID=1
LM=2
NA NA
5 5
COMMENT=seen from below
IMAGE=C:\pictures\b, c.png
ID=2
