"""Responses without an answer, in which `careful` reads no letter."""

import pytest

from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.scoring.readers.careful import read_careful

WITHOUT_OPTIONS = r"""
I can not help with identifying person B in this video.
Step 1: Identify the objects. Object A is a cup, object B is
The answer is
Option A: He opens the door. Option B: He closes the window.
Possible answers are A (red), B (blue), C (green), and D (yellow).
Let us see who knits:\n\n1. Frame 1: A woman sits down.\n2. Frame 2: A
The frames show a lake.\n\nThe boat goes home after sunset, as it's a c
A. Gold\nB. Silver\nC. Black\nD. White\n\nFind the one that matches the description. Gi
Option A describes the morning, whereas option B describes the evening.
It could be A, but it could also be D.
Options B and D both mention a car, so one would have to look at the plate.
Point A is at (0, 0) and point B is at (3, 4), so the distance is 5.
Let A be the event that it rains. Then P(A) = 0.3 and P(B) = 0.5, so P(A and B) = 0.15.
The vectors are a = (1, 0) and b = (0, 1). The sum is a + b.
We have a = 3, b = 4 and c = 5, so the triangle is right-angled.
The carbon atom C is bound to four hydrogen atoms.
Blood type B people can receive B and O.
Her final grade was a D.
Plan B failed as well.
signs = ['A', 'B', 'E']\ncurrent = 'E'\nprint(signs[signs.index(current) - 1])
if few < many:\n    answer = "B"\nelse:\n    answer = "D"\n\nprint(answer)
Q1: A\nQ2: C\nQ3: D
1. The answer is A.\n2. The answer is C.
Question 1: The answer is A.\nQuestion 2: The answer is B.\nQuestion 3: The answer is D.
For the first question, the answer is B. For the second question, the answer is D.
（1）因为他很累，所以选A。（2）因为天黑了，所以选C。
第1题：答案是A。第2题：答案是C。
17. 【解析】这里强调……【答案】A\n18. 【解析】根据上文……【答案】C
41. Reason: the man is late. Answer: B\n42. Reason: it rains. Answer: D
(i) The sky is blue, so the answer is A.\n(ii) The sea is deep, so the answer is C.
小题1：B。解析：第一段说……\n小题2：D。解析：第二段说……
問1 正解はa。\n問2 正解はc。
问题一的答案为B，问题二的答案为C。
The answer to part (a) is A and the answer to part (b) is C.
Blank 1: A; blank 2: C; blank 3: B
选项A提到了狗，选项B提到了猫。
首先分析选项A：男子在跑步。视频中他确实在户外。选项B：男子
A是人，B是车，C是狗。
選択肢Aは犬、選択肢Bは猫についてです。
写真Aには男性が、写真Bには女性が写っています。
aもcも考えられる。
If I had to guess between A and D, I would flip a coin.
Why would anybody say C?
Answer with the option's letter from the given choices directly.
None of the options is right: the man has a beard, but option A says that he has none.
See panel (C) for the control group.
As shown in Table B, the yield grows.
A is taller than B. B is taller than C. So A is taller than C.
A is the father of B. C is the sister of A. Therefore, C is the aunt of B.
Either A is a knight or B is a knave. If A is a knave, then B
Statement A is true and statement B is false.
C is the symbol of carbon.
y = Ax + B
V = IR, so the current in resistor B is 2 A.
The plot shows three lines, A, B, and C, of which B is the longest.
I see a man with the letter B on his hat.
A - red\nB - blue
A (30%), B (40%), C (20%), D (10%)
First frame: A. Second frame: B.
The correct order is B → A → D → C.
So we are left with options B and C.
A) is wrong, and so is C).
For the answer to be B, the car would have to be blue.
Then the answer would be D only if the door was open.
Assume that C is true.
Assume the answer is B. Then the sum is 12, a contradiction.
The man in shirt A is running and the man in shirt B is walking.
In the diagram, the angle marked (b) is larger than the angle marked (a).
I need to find the value of a.
Reaction conditions: A) NaOH, B) HCl.
A child with blood type O cannot have a parent with blood type AB.
Please provide the options A, B, C and D.
Options A, B and C are all true, so more than one answer is possible.
正确的顺序是：A → C → B → D。
答案是A和C。
可能是A，也可能是B。
已知A(1,2)，B(3,4)，则AB的中点为(2,3)。
選択肢a、b、cのいずれも正しくありません。
画像が提供されていないため、aを選ぶことはできません。
A B-tree is a data structure.
The letter A is red and the letter B is blue.
Exhibit A was shown to the jury.
The ratio A:B is 2:3.
If A is true, then B is false. If B is true, then C is false.
For option A, the result is 3. For option B, the result is 5. We need 4.
The calculated value 17.3 does not match A, B, C or D.
My calculation gives 12, but the closest options are A (10) and B (15).
It is not D, because the man is old.
Nothing in the video supports B.
I doubt that it is A.
It's unlikely that B is the answer.
I wouldn't choose C.
So we get A = B.
Final answer: 42
The answer is a dog.
<think>It is B.</think>
A: The man is right. B: The woman is right.
The boy picks D
The girl chose A.
The teacher answered D.
The contestant locks the buzzer and answers C.
The letter on the jersey is D
The letter written on the board is B.
The letter that she draws is C.
The cloud looks like the letter C.
The caption says D.
Her answer is C.
The student's answer is B.
Der Buchstabe auf dem Trikot ist D.
Seine Antwort ist C.
La letra en la camiseta es D.
Su respuesta es B.
男孩选了D。
他的答案是C。
屏幕上显示的答案是B
彼の答えはCです。
彼女はBを選んだ。
如果是狗，答案就是A；如果是猫，就是B
若天黑则选C，若天亮则选D。
If it is a dog, the answer is A; if it is a cat, the answer is B.
If the light is red, choose A. If it is green, choose B.
When it rains, the answer is A; when it snows, the answer is C.
If he leaves, the answer is A, otherwise it is B.
Wenn es ein Hund ist, ist die Antwort A; wenn es eine Katze ist, B.
Case 1: the answer is A. Case 2: the answer is B.
answer "A"
If yes, answer "A"; if no, answer "B".
Please answer with "A".
For example: B
Format: "Answer: B"
Please give a single letter such as A.
Image 2 (B) is the most similar to image 1 (A).
<think>Let me look at each option.\nOption A\nThe boy
<think>Let me look at each option.\nA
<think>It runs.\nAnswer: B?
<think>It runs.\nAnswer: B or C.
<think>It runs.\nIt is B.\n</think>
The arrow points to B.
The needle of the compass slowly points towards C.
She points to D.
x = 'E'
color = 'C'
y = B
犬ならA、猫ならB。
雨の場合はC、雪の場合はD。
The answer on the slide is C.
The correct answer written on the board is B
The possible choices are Option A and Option D.
The second best option is B.
Second most likely: C
The explanation of the answer:\nThe vitamin in the fruit is C.
"""

WITH_OPTIONS = r"""
Tea | Milk | Water | Coffee => A. Tea\nD. Milk
Ida | Jon | Kim => To find who pays for Ida's tea, see what is known:\n\n1. Jon pays.\n2. We need
Tea | Milk | Water | Rum => Step 1: List them.\n- A. Tea\n- B. Milk\n- C. Water\n- D
At noon | Tonight => Now look at the facts:\n- It is about storms that come tonight.\n- The
It gets worse. | It ends. => Look:\n\n1. **Option A: It gets worse.**\n   - The ice is rigid and
30° | 40° | 50° | 60° => In triangle ABC, the angle at A is 30° and the angle at B is 60°.
30° | 40° | 50° | 60° => The angle at A is 40°. The angle at B is
3 | 4 | 5 | 6 => In the first frame there are 3 people. More people may come later.
3 | 4 | 5 | 6 => Step 1: count the red balls. There are 3. Step 2: count the blue balls. There are
3 | 4 | 5 | 6 => The radius is 3. The area is 9π.
red | blue | green | yellow => The man wears a red hat and a blue shirt.
red | blue | green | yellow => The sky is blue. The car is black.
red | blue | green | yellow => The car is purple.
red | blue | green | yellow => If the light is green, the car goes.
a dog | a cat | a bird | a fish => A dog and a cat play in the garden.
a dog | a cat | a bird | a fish => Is it a dog
Yes | No => No information is given about the man.
A. He runs | B. He sits | C. He sleeps | D. He eats => First, he runs. Later, he dances.
A. Paris | B. London | C. Rome | D. Berlin => Madrid
A. 3/4 | B. 1/2 | C. 2/3 | D. 1/4 => Thus, the probability is 5/6.
A. 10 cm | B. 20 cm | C. 30 cm | D. 40 cm => The side AB is 10 cm long. The perimeter is 45 cm.
A. 10 cm | B. 20 cm | C. 30 cm | D. 40 cm => AB = 10 cm and BC = 15 cm.
跑步 | 游泳 | 睡觉 | 吃饭 => 首先，他在跑步。接下来我们看
20 | 30 | 40 | 50 => There were 20 in the morning.\n\nThere were 25 in the evening.
20 | 30 | 40 | 50 => At time t = 20, the ball
A | B | C | D => The points are A and B.
point A | point B | point C | point D => From point A, the ball rolls to point B and stops at
0.0 | 1.0 | 2.0 | 3.0 => Point A is at 0.0, and Point B is at 5.0.
0.0 | 1.0 | 2.0 | 3.0 => The line starts at 0.0. It ends at 7.5.
A is closer | B is closer => A dog is closer. The cat is far away.
A is closer | B is closer => A is closer at first. Later B is closer.
It is red | It is blue => It is red, or it is blue. Both are seen.
farms | a mill | a shop => The town has farms, mills and shops.
A is closer | B is closer => The red dot is closer.
A is closer | B is closer => If he turns, dot A is closer. It is red.
A is closer | B is closer => Dot B is near the tree. The other one is closer.
A is closer | B is closer => Dot A is closer to the wall. Dot B is closer to the tree.
a dog | a cat => Based on the photo, the animal is not a dog. It sleeps.
Team A | Team B => Team A is better at home. Team B is better abroad.
Team A | Team B => It is raining. Team A is most likely older. Both look tired.
Team A | Team B => I cannot tell who wins. Team B is better dressed.
1 May 2001 | 2 May 2001 | 3 May 2001 => It rained. It is unclear whether it was 3 May 2001.
red | tan => A. red\nB. tan\nReply:\nA. red\nB. tan\nAnswer:\nA. red\nB
red | blue | green => A. red\nB. blue\nC. green\nAnswer:\nA. red\nB. blue\nC
red | blue | green => blue\nAnswer: A\nAnswer: C\nAnswer: B\nAnswer: C\nAnswer: A
red | blue | green => Red. Blue.
red | blue | green => A: A: The car is red.\nB: The car is blue.\nC: The car is green.
red | blue | green => A: A: red\nB: blue\nC: green
red | blue | green => A: blue\nB: blue
red | blue | green => A: A: a: A: A: A:
red | blue | green => A. The red.\nAnswer: The blue.\nAnswer: The green.\nAnswer: The black.
red | blue | green | tan => A. red\nB. tan\nC. blue\nD. tan\nC. blue\nD. tan\nD. tan\nC. blue
red | blue | green | tan => A. red\nNo.\n\nB. blue\nNo.\n\nC. green\nNo.\n\nD. tan\nThis option is
red | blue | green | tan => Each option:\n\nA. **red**: no.\n\nB. **blue**: This is
red | blue | green | tan => Each option:\n\nA. red\n- It is dark.\n\nB. blue\n- No.\n\nC. green
red | blue | green | tan => A) red (The answer is no option)\nB) blue\nC) green
red | blue | green | tan => The reason for this answer is:\n\nA. red cars\nB. blue cars\nC. tan cars
red | blue | green | tan => C. green\nA. tan\nD. red
red | blue | tan => It is blue.\nWho is it?\nA. red\nB. blue\nC. tan\nAnswer briefly. It is
red | blue | green | tan => Answer with a letter.\nWhich color has the car?\nA. red
red | blue | green | tan => Options:\n1. red\n2. blue\n\nOption 1:\nThe car
20 | 30 | 40 | 50 => A. 30\nB. 40\nC. 50
20 | 30 | 40 | 50 => A: 30\nB: 40\nC: 50
20 | 30 | 40 | 50 => A: 1871
the barn | the attic | the mill => She is in the barn, which is old. He also goes to the
red | blue | tan => A. red\nB. blue\nC. tan\n\nEach:\n\nA. red: no.\n\nB. blue: no.\n\nC. ta
red | blue | green => A. red\n\nThe answer is C. She sleeps. The answer is B.
red | blue | green => You are asked to say whether the car is blue.
red | blue | green => The color is B. blue, but that is not the answer.
"""


@pytest.mark.parametrize("response", WITHOUT_OPTIONS.strip().splitlines())
def test_no_letter_is_read_from_a_response_without_an_answer(response: str) -> None:
    text = response.replace(r"\n", "\n")
    assert read_careful(text, tuple(Letter)[:4], ()).letter is None


@pytest.mark.parametrize("line", WITH_OPTIONS.strip().splitlines())
def test_no_option_is_read_from_a_response_that_only_mentions_it(line: str) -> None:
    given, _, response = line.partition(" => ")
    options = given.split(" | ")
    text = response.replace(r"\n", "\n")
    assert read_careful(text, tuple(Letter)[: len(options)], options).letter is None
