"""Forms of model answers, with the letter that a careful person reads ("" for none).

They were written for these tests and are not recorded responses. The options are A to D.
"""

# ruff: noqa: E501, W291 - the forms are data, one per line with its outer spaces

import pytest

from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.scoring.readers.read_answer import ReaderName, read_answer

FOUR = tuple(Letter)[:4]


def letter(response: str) -> str:
    return read_answer(ReaderName.CAREFUL, response, letters=FOUR).letter or ""


def forms(text: str) -> list[tuple[str, str]]:
    r"""Forms as `letter | response`, one per line; "-" is no letter and \n a line break."""
    rows = [line.split(" | ", 1) for line in text.strip("\n").splitlines()]
    return [
        (
            "" if expected.strip() == "-" else expected.strip(),
            response.replace("\\n", "\n"),
        )
        for expected, response in rows
    ]


BARE = r"""
B | B
B |   B  
B | B!
B | B)
B | (B).
B | [B].
B | <B>
B | "B."
B | “B”
B | ‘B’
B | *B*
B | **B**.
B | ***B***
B | __B__
B | `B`
B | ~B~
B | # B
B | ## B
B | - **B**
B | 1. B
B | • B
B | > B
B | b
B | b.
B | b)
B | (b)
B | [b]
B | "b"
B | B B
B | B, B, B
B | BB
B | B?
B | B 👍
B | ✅ B
B | 👉 B
B | ✔️ B
B | B ✅
B | B\n
B | \n\nB\n\n
B | B</s>
B | B<|im_end|>
B | B<|endoftext|>
B | B<end_of_turn>
B | <b>B</b>
B | <p>B</p>
B | <strong>(B)</strong>
"""

LABELLED = r"""
A | a) The man is running.
C | c) The man is running.
C | C. The dog
C | C) The dog
C | C: The dog
C | C - The dog
C | C – The dog
C | C — the dog runs away
C | (C) The dog
C | [C] The dog
C | **C.** The dog
C | **C. The dog**
C | **(C)** The dog
C | *C.* The dog
C | C.The dog
C | C、狗
C | C．狗
C | c) the dog
C | c. the dog
C | (c) the dog
C | C. A man and a dog
C | C. B-boys dancing
C | C. Plan B
C | C. Vitamin A
C | C. No dogs appear
C | C. Not mentioned
C | C. None of the above
C | C. Error
C | C. It is not shown
C | C. 3
C | C) 5 times
C | C: "Stop"
C | C.\n\nThe dog enters at 0:15.
C | C\n\nThe dog enters at 0:15 and leaves at 0:20.
C | C. The dog\n\nExplanation: In the video the man pets it.
C | C, because the dog is seen first.
C | C because the dog is seen first.
C | C (the dog)
C | C - because of the colour
"""

DECLARED = r"""
D | The answer is D
D | The answer is: D.
D | the answer is d
D | THE ANSWER IS D
D | The answer is (D).
D | The answer is **D**.
D | The answer is "D".
D | The answer is option D.
D | The answer is Option (D).
D | The answer is letter D.
D | The answer is choice D.
D | The answer is most likely D.
D | The answer is probably D
D | The answer is therefore D.
D | The answer is clearly D, since the cat sleeps.
D | The answer is D because the cat sleeps.
D | The answer is D: a cat
D | The answer is D. A cat
D | The answer is D) a cat
D | The answer would be D.
D | The answer should be D.
D | The answer must be D.
D | The answer seems to be D.
D | The answer appears to be D.
D | The answer to this question is D.
D | The answer to the question about the dog is D.
D | The answer, based on the frames, is D.
D | The correct answer, then, is D.
D | The correct answer is\n\n**D. a cat**
D | The correct answer is:\n\nD. a cat
D | The correct option is D.
D | The correct choice is D.
D | The correct letter is D.
D | The best choice here is D.
D | The right answer: D
D | The most accurate answer is D.
D | The most appropriate option is D.
D | My answer: D
D | My answer is D.
D | My final answer is D.
D | My choice would be D.
D | My best guess is D.
D | My guess: D
D | Final answer: D
D | FINAL ANSWER: D
D | Final Answer: **D**
D | **Final Answer**: D
D | **Final answer:**\n\nD
D | ### Final Answer\n\n**D**
D | ## Answer: D
D | # Answer\nD. a cat
D | Answer: D
D | Answer:D
D | answer: d
D | Answer - D
D | Answer → D
D | Answer => D
D | Answer = D
D | Answer (D)
D | Answer D
D | Answer is D
D | Ans: D
D | Ans) D
D | Correct answer: D. a cat
D | Correct option: (D)
D | Correct: D
D | Option: D
D | Choice: D
D | Letter: D
D | Selected option: D
D | Selection: D
D | Response: D
D | Output: D
D | Result: D
D | Conclusion: D
D | Verdict: D
D | Prediction: D
D | Assistant: D
D | assistant\n\nD
D | Q: What sleeps?\nA: D
D | A: D. a cat
D | Question 3: D
D | So the answer is D.
D | Thus, the answer is D.
D | Hence the correct option is D.
D | Therefore, D.
D | Hence, D is the answer.
D | So, D.
D | Based on the video, the correct answer is D. a cat.
D | According to the subtitles, the answer is D.
D | Sure! The answer is D.
D | The video shows a cat. The answer is D.
D | In the first frame a cat sleeps; the answer is D.
D | The answer is D, not A.
D | The answer is not A but D.
D | Not A. The answer is D.
D | The answer isn't B; the answer is D.
"""

CHOSEN = r"""
A | I choose A.
A | I choose option A
A | I would choose A
A | I'd choose (A).
A | I select A.
A | I pick A
A | I'll go with A.
A | I would go with option A.
A | I'm going with A
A | Let's go with A.
A | I opt for A.
A | I'd say A.
A | I guess A.
A | I think it's A.
A | I think the answer is A.
A | I believe it is A.
A | I believe the correct answer is A.
A | It is A.
A | It's A!
A | It must be A.
A | It should be (A).
A | It is option A.
A | That would be A.
A | This is option A.
A | A is correct.
A | A is right.
A | A is the answer.
A | A is the correct answer.
A | A is the best choice.
A | A is the most likely answer.
A | A seems correct.
A | A seems right
A | A must be correct.
A | A is better than B.
A | Option A is correct.
A | Option A is the best match.
A | Option A.
A | Option A
A | option a
A | Choice A.
A | Choice (A)
A | (A) is correct.
A | **A** is the right answer.
A | Both A and B look good, but A is better.
A | B is incorrect, so A.
A | Not B, so it must be A.
A | Probably A.
A | Most likely A
A | Definitely A!
A | Maybe A
A | Clearly A.
A | OK, A.
A | Well, A.
A | Yes, A.
A | Sure: A
A | Hmm, A.
A | I am not sure, but I think A.
A | I'm not certain, but the answer is probably A.
A | It's hard to tell, but I would say A.
A | I cannot be completely sure, but the best answer is A.
A | This corresponds to option A.
A | This matches option A.
A | This best matches option A.
A | The evidence points to A.
A | That leaves A.
A | Only A matches the video.
A | A matches the video.
A | A fits best.
A | B is wrong. C is wrong. D is wrong. A is correct.
A | Option B is incorrect because it rains. Option A is correct.
"""

FINAL_STATEMENT = r"""
B | At first I thought A. But the answer is B.
B | The answer is A. Wait, actually it is B.
B | The answer is A. Wait, no, the answer is B.
B | A. Wait, B.
B | A. No, B.
B | The larger circle is: (B) the red one.
C | That leaves (B) and (C). It is no dog. That means (C) is the correct answer.
C | It is (B) a dog or (C) a cat. The answer is C.
B | A is wrong. B is also consistent with the frames, so B is correct.
A | My first choice is A.
B | The cook is (B) tired, because she worked all day.
B | 【答案】B【解析】画面中的人在跑步，A错误。
B | Answer: A\n\nCorrection: the answer is B.
B | Answer: A. On second thought, the answer is B.
B | I think A... actually, B.
B | A? No. B.
B | Is it A? No, it is B.
B | It could be A, but the answer is B.
B | A. Apples\nB. Pears\nC. Plums\nD. Figs\n\nAnswer: B
B | A. Apples B. Pears C. Plums D. Figs. The answer is B.
B | Options:\nA. Apples\nB. Pears\nC. Plums\nD. Figs\nThe man buys pears, so the correct option is B.
B | (A) no (B) yes (C) no (D) no\nAnswer: (B)
B | A. wrong\nB. correct\nC. wrong\nD. wrong
B | A: incorrect\nB: correct\nC: incorrect\nD: incorrect
B | Option A: no\nOption B: yes\nOption C: no\nOption D: no
B | - A ❌\n- B ✅\n- C ❌\n- D ❌
B | A. Apples\nB. Pears ✓\nC. Plums\nD. Figs
B | A. Apples\nB. Pears (correct)\nC. Plums\nD. Figs
B | | Option | Right? |\n|---|---|\n| A | no |\n| B | yes |
B | Let me think step by step. Frame 1 shows a dog. Frame 2 shows a cat. So the answer is B.
B | Step 1: look at A. Step 2: look at B. Final answer: B
B | First, A is ruled out as there is no dog. Second, C is wrong. The answer is B.
B | The man could be in room A or room C. He says he is upstairs. Answer: B
B | Answer: B\n\nExplanation: A is wrong because there is no dog. C is wrong because it is night.
B | B. Pears\n\nOption A shows apples, which do not appear.
B | **B**\n\nThe other options (A, C, D) are not supported.
B | The answer is B. A is wrong. C and D are not shown.
B | The answer is B rather than A.
B | B, not A.
B | B instead of C.
B | It is not C, it is B.
B | The answer is either A or B. Looking closely, it is B.
B | A or B? I would say B.
B | The final answer is B.\nNote: option A would need a dog.
"""

REASONING = r"""
C | <think>Maybe A. Maybe B.</think>C
C | <think>\nThe answer is A.\n</think>\n\nC. Plums
C | <thinking>A looks right</thinking>\nThe answer is C.
C | <analysis>B is tempting.</analysis>\nC
C | <reasoning>It is D.</reasoning><answer>C</answer>
C | Maybe A... </think>\nC
C | ◁think▷ A or B ◁/think▷ The answer is C.
C | [THINK]A or B[/THINK]C
C | <seed:think>A</seed:think>C
C | <|channel|>analysis<|message|>Maybe A.<|end|><|start|>assistant<|channel|>final<|message|>C<|return|>
C | <answer>C</answer>
C | <answer>\nC\n</answer>
C | <answer>C. Plums</answer>
C | <answer>(C)</answer>
C | <answer>The answer is C</answer>
C | <answer>Option C</answer>
C | <answer>C
C | <Answer> C </Answer>
C | <final_answer>C</final_answer>
C | Because of A and B. <answer>C</answer>
C | <think>A</think><answer>C</answer><|im_end|>
C | <answer>A</answer> Wait. <answer>C</answer>
C | <|begin_of_box|>C<|end_of_box|>
C | The answer is <|begin_of_box|>C<|end_of_box|>.
C | \boxed{C}
C | \boxed{\text{C}}
C | $\boxed{\text{C}}$
C | \[\boxed{C}\]
C | \boxed{\mathbf{C}}
C | \boxed{\mathrm{(C)}}
C | \boxed{C. Plums}
C | \boxed{\text{C. Plums}}
C | The answer is $\boxed{C}$.
C | **Answer:** $\boxed{C}$
C | A is wrong. B is wrong. Thus \boxed{C}.
C | $C$
C | \(C\)
C | \text{C}
C | \textbf{C}
C | The answer is \textbf{C}.
- | <think>The answer is C
- | <think>Let me look at option A. The dog is black. Option B
- | <think>I should choose A</think>
- | <analysis>First, the man enters. A?
- | <|channel|>analysis<|message|>It is C
- | <think>\nOkay, the user asks what happens. The answer might be B, but let me check
"""

STRUCTURED = r"""
D | {"answer": "D"}
D | {"answer":"D"}
D | {'answer': 'D'}
D | {"answer": "d"}
D | {"answer": "(D)"}
D | {"answer": "D. Figs"}
D | {"final_answer": "D"}
D | {"Answer": "D", "Confidence": 0.9}
D | {"choice": "D"}
D | {"option": "D", "explanation": "Figs are shown, not Apples as in A."}
D | {"explanation": "A is tempting. The answer could be B.", "answer": "D"}
D | {"reasoning": "The answer is A? No.", "answer": "D"}
D | {"answer": "D", "reason": "the man
D | {\n  "answer": "D"\n}
D | ```json\n{"answer": "D"}\n```
D | ```\nD\n```
D | ```text\nD\n```
D | ```json\n{"selected_option": "D"}\n```
D | ["D"]
D | {"D": "Figs"}
D | answer: D
D | answer: "D"
D | answer: 'D'
D | answer: >-\n  D
D | reasoning: a man walks\nanswer: D
D | answer = "D"
D | <option>D</option>
D | <response>D</response>
D | <result><letter>D</letter></result>
D | <root><answer>D</answer></root>
D | | Answer |\n|---|\n| D |
D | | Question | Answer |\n|---|---|\n| 1 | D |
- | {}
- | {"answer": null}
- | {"answer": ""}
- | {"answer": "A, B"}
- | ["A", "C"]
- | {"A": 0.2, "B": 0.3, "C": 0.1, "D": 0.4}
- | <answer></answer>
- | <answer>A or B</answer>
- | <answer>unknown</answer>
- | \boxed{}
"""

LANGUAGES = r"""
B | 答案：B
B | 答案是B
B | 答案是 B。
B | 答案为B。
B | 答案应该是B。
B | 正确答案是B。
B | 正确答案：B
B | 正确选项是B。
B | 最佳答案是：B
B | 最终答案：B
B | 选B
B | 选B。
B | 选择B
B | 我选B
B | 我选择 B 选项。
B | 应该选B。
B | 应选 B
B | 因此选B。
B | 所以答案是B。
B | 因此，答案为 **B**。
B | 选项B
B | 选项B正确。
B | B选项正确。
B | B是正确的。
B | B项正确
B | B。
B | B、苹果
B | B：苹果
B | （B）
B | Ｂ
B | Ｂ．苹果
B | 「B」
B | 【答案】B
B | 根据视频内容，答案是B。
B | A不正确，B正确。
B | 不是A，答案是B。
B | 第二个选项
B | 答えはBです。
B | 答え：B
B | 正解はBです
B | 正解: B
B | Bです。
B | Bが正解です。
B | 選択肢B
B | 正答はBである。
B | 정답: B
B | 정답은 B입니다.
B | 답은 B입니다.
B | 답: B
B | B입니다.
B | 정답은 (B)입니다
B | 선택지 B
B | Die Antwort ist B.
B | Die richtige Antwort ist B.
B | Antwort: B
B | Richtig ist B.
B | Ich wähle B.
B | Die richtige Antwort lautet B.
B | Lösung: B
B | La réponse est B.
B | La bonne réponse est B.
B | La réponse correcte est la B.
B | Réponse : B
B | C'est B.
B | Je choisis B.
B | La respuesta es B.
B | La respuesta correcta es la B.
B | Respuesta: B
B | La opción correcta es B.
B | La opción correcta es la opción B.
B | Elijo la B.
B | Es la B.
B | A resposta é B.
B | A resposta correta é a B.
B | A alternativa correta é a letra B.
B | Resposta: B
B | La risposta è B.
B | La risposta corretta è la B.
B | Risposta: B
B | Het antwoord is B.
B | Antwoord: B
B | Ответ: B
B | Ответ: В
B | Правильный ответ: B
B | Правильный ответ — B.
B | Правильный вариант — B
B | Odpowiedź: B
B | Prawidłowa odpowiedź to B.
B | Cevap: B
B | Doğru cevap B.
B | Svar: B
B | Rätt svar är B.
B | Vastaus: B
B | Jawaban: B
B | Jawaban yang benar adalah B.
B | Đáp án: B
B | Đáp án là B.
B | Đáp án đúng là B.
B | الإجابة: B
B | الإجابة هي B
B | الإجابة الصحيحة هي B.
B | الجواب: B
B | התשובה היא B
B | उत्तर: B
B | सही उत्तर B है।
B | คำตอบคือ B
B | คำตอบ: B
B | ตอบ B
B | Η απάντηση είναι B.
- | 无法判断
- | 视频中没有相关信息，无法回答。
- | 动画师说的是C语言
- | 不选A
- | 我不知道
- | わかりません。
- | 알 수 없습니다.
- | Ich weiß es nicht.
- | Je ne sais pas.
- | No se puede determinar.
- | A la derecha
- | A mulher corre.
- | E depois ele sai.
- | Не знаю.
- | В видео мужчина бежит.
- | А потом он уходит.
- | С другой стороны
"""

FOLDED = (
    r"""
B | Ⓑ
B | ⓑ
B | 🅱️
B | 🅱
B | 𝐁
B | 𝗕
B | **𝐁**
B | ［Ｂ］
B | （Ｂ）
B | Ｂ：ペン
B | Answer： B
B | Answer: \u200bB
B | The answer is\u00a0B.
B | \ufeffB
""".replace("\\u200b", "\u200b")
    .replace("\\u00a0", "\u00a0")
    .replace("\\ufeff", "\ufeff")
)

SEVERAL = r"""
- | A or B
- | A and B
- | A/B
- | A, B
- | A & C
- | A,B,C,D
- | A B
- | AB
- | ABCD
- | A\nB
- | A; C
- | (A) and (C)
- | (A) or (C)
- | **A** or **B**
- | A[/]B[/]C\nB is larger.\nD is further away.
- | A is correct. B is also correct.
- | It must be (B) a dog or (C) a cat.
- | This leaves (B) a dog or (C) a cat.
- | The first answer choice is (A) a bus. The second answer choice is (B) an opera. Then
- | The steps are: (A) paint it and then (B) dry it.
- | After lunch the floor is (A) dusty. The cook is (B) tired. The shelves are (C) in order.
- | Both A and B
- | Either A or B.
- | either a or b
- | A, B and D are correct.
- | Both A and C are correct.
- | The answer is A or B.
- | The answer is A and B.
- | The answer is A/B.
- | The answer is either A or B.
- | The answer could be A or C.
- | The answers are A and C.
- | The correct options are B and D.
- | Answer: A, C
- | Answer: A and C
- | Answer: A & D
- | Answer: (A), (C)
- | I would choose A or B.
- | It could be A or it could be B.
- | Between B and C.
- | All of the options are correct.
- | All of them.
- | None of the above
- | None of the options.
- | Neither A nor B.
- | A. Apples\nB. Pears\nC. Plums\nD. Figs
- | A. Apples B. Pears C. Plums D. Figs
- | A. Apples\nB. Pears\nC.
- | (A) Apples (B) Pears (C) Plums (D) Figs
- | Options: A, B, C, D
- | Respond with only the letter (A, B, C, or D) of the correct option.
- | Please choose A, B, C or D.
- | 答案是A或B
- | 选A和C
- | A或者B
- | A和B都正确
"""

NEGATED = r"""
- | Not A
- | not A.
- | It is not A.
- | It's not B.
- | A is wrong.
- | A is incorrect.
- | A is not correct.
- | A is not the answer.
- | Option A is incorrect.
- | Option B is not shown.
- | Option B cannot be right.
- | The answer is not A.
- | The answer isn't C.
- | The answer cannot be A.
- | I would rule out A.
- | We can eliminate D.
- | I can exclude option D.
- | A and B are wrong.
- | A seems unlikely.
- | Neither A
- | A is false.
A | A?
- | Is it A?
- | Is the answer A?
- | Could it be B? I cannot tell.
- | If the answer is A, the dog must be black.
- | If A is correct then he would run.
- | Whether the answer is B depends on the frame.
- | The answer is A. Wait, that's wrong.
- | The answer is A. Wait, no. Let me look again.
"""

PROSE = r"""
- | A man walks his dog.
- | A red car
A | A
- | a man
- | An apple
- | I think a dog is running.
- | The answer is a man.
- | The answer is A man walking.
- | The correct answer is a red car.
- | It is a dog.
- | He eats a banana
- | Vitamin C
- | vitamin C.
- | He takes vitamin C.
- | The man takes vitamin D every day.
- | Plan B
- | Plan B.
- | plan b
- | Grade A
- | He got a grade of A.
- | Hepatitis B
- | Blood type B
- | His blood type is B.
- | C major
- | The song is in C major.
- | Type A personality
- | Group B
- | Team A wins.
- | Team A
- | Player B is better.
- | The winner is team B.
- | Person A talks to person B.
- | Building C
- | Gate B
- | Section D
- | Point A to point B
- | From A to B
- | Class B
- | Category D
- | Exit C
- | B movie
- | D-Day
- | A-list actor
- | B-boy
- | T-shirt
- | USB-C
- | X-ray
- | U.S.A.
- | D.C.
- | Washington D.C.
- | Dr. B
- | Mr. C
- | R&B
- | A&E
- | A+
- | B+
- | C++
- | C#
- | C:\Users
- | 25 °C
- | 5 A.M.
- | B.C.
- | A/C
- | N/A
- | n/a
- | NA
- | OK
- | No
- | Yes
- | True
- | Cat
- | Dog
- | Apple
- | Black
- | Blue and red
- | Canada
- | DNA
- | ABC News
- | CD
- | BBC
- | CNN
- | DVD
- | AC/DC
- | Bob
- | Dave
- | C'est la vie
- | He's got an A.
- | He got an A
- | The sign says "B".
- | The letter B appears on the screen.
- | He spells out A, B, C.
- | He walks past door A and opens it.
- | The camera pans from camera A
- | At 0:15 the chef adds salt.
- | During the match a player scores.
- | 3
- | 42
- | 0:15
- | The second half
- | The first man wins the race.
- | The third quarter
- | The second one to leave is the man.
- | Because the dog is black.
- | Based on the video, a dog runs.
- | Based on the video
- | The answer is
- | The correct option is
- | Answer:
- | Final Answer:
- | Option
- | Let me think.
- | First, consider option A. The dog is black.
- | To answer this, look at option B first
- | Looking at option A, the man
- | Let's analyze each option:\n\nA. The man runs: in the video he
- | Frame 1: A man. Frame 2: B roll.
"""

FAILURES = r"""
- | Error
- | Error: 500
- | Error code: 429 - {'error': {'message': 'Rate limit reached for requests', 'type': 'A'}}
- | Error code: 400 - the answer is B
- | [ERROR] A timeout
- | ERROR: B
- | BadRequestError: Error code: 400
- | openai.RateLimitError: Error code: 429 - Option A
- | APIConnectionError: Connection error.
- | requests.exceptions.ReadTimeout: HTTPSConnectionPool(host='x', port=443): A
- | Traceback (most recent call last):\n  File "a.py", line 1, in A\nValueError: B
- | {"error": {"code": 503, "message": "The model is overloaded. Option A"}}
- | {"detail": "Not Found"}
- | HTTP 502 Bad Gateway
- | HTTP/1.1 401 Unauthorized: A
- | 503 Service Unavailable
- | 429 Too Many Requests
- | [Errno 111] Connection refused
- | 429 RESOURCE_EXHAUSTED. {'error': {'status': 'A'}}
- | {"object": "error", "message": "The prompt is longer than the maximum model length: A", "code": 400}
- | You exceeded your current quota, please check your plan A.
- | Max retries exceeded with url: /v1/chat/completions (A)
- | <urlopen error [Errno 111] A>
- | google.api_core.exceptions.ResourceExhausted: 429 A
- | The model is overloaded. Option A
- | Server disconnected without sending A
- | 504 Gateway Timeout
- | {"detail": "Internal Server Error A"}
- | Failed to obtain answer via API.
- | Request timed out.
- | Connection refused
- | Rate limit exceeded, plan B
- | API Error
- | <html><head><title>504 Gateway Time-out</title></head></html>
- | null
- | None
- | nan
- | NaN
- | undefined
- | 
- | ...
- | ?
- | -
- | .
- | !!!
- | 👍
- | I'm sorry, but I can't help with that.
- | I'm sorry, I can't assist with identifying people.
- | I cannot answer this question.
- | I can't determine the answer from the frames provided.
- | I am unable to view videos.
- | As an AI, I cannot watch videos.
- | As an AI language model, I don't have access to the video.
- | Sorry, the video is not available.
- | It is impossible to determine the answer.
- | There is not enough information to answer.
- | The video does not provide this information.
- | Cannot be determined
- | Cannot determine
- | Don't know
- | I don't know.
- | I do not know which option is correct.
- | Unknown
- | Unclear
- | Blocked by safety filter
- | CONTENT_FILTER
- | STOP
- | Please provide the video.
- | Could you upload the frames again?
- | I need more frames to choose between A and B.
- | Unfortunately, I cannot tell whether it is A or B.
"""

NOT_OFFERED = r"""
- | E
- | (F)
- | G.
- | H. Cannot be determined
- | The answer is E.
- | Answer: F
- | Final answer: G
- | I choose H.
- | Z
- | X
- | Answer: Z
- | Option E
- | <answer>E</answer>
- | \boxed{F}
- | {"answer": "E"}
- | A is wrong. The answer is E.
"""

ORDINALS = r"""
A | The first option
- | the first one
B | The second option.
B | The answer is the second option.
B | I choose the second option.
B | The second option is correct.
C | The third choice
C | third option
D | The fourth option
D | The last option
- | The last one.
B | Option 2
B | option 2.
B | Option two
- | The first option is wrong.
- | Not the first option.
- | The first and second options
"""


MORE = r"""
A | The correct answer is A, as the narrator says so.
B | B. He is angry
B | B: He is angry because of the rain
C | In conclusion, the answer is C.
C | In conclusion, C.
C | To sum up: C
C | Final choice: C
C | Final decision: C
C | Final answer = C
C | Final Answer is option C.
C | The final answer is: $\\boxed{C}$
C | **My final answer is: C**
C | ***Answer: C***
C | <strong>Answer:</strong> C
C | Answer : C
C | Answer: C (the third)
C | Answer: option C
C | Answer: choice (C)
C | The answer: "C"
C | The answer is 'C'
C | The answer is C!
C | The answer is c.
C | i think it is c
C | it's c
C | i would go with c
C | option c is correct
C | c is correct
C | the correct option is (c)
C | its C
C | Its option C
C | So it's C.
C | That's C.
C | C it is.
C | C for sure
C | C, definitely.
C | C, I think.
C | C I think
C | C, I guess
C | C :)
C | C. :)
C | I'm confident that the answer is C.
C | I'm fairly sure it's C.
C | I am leaning towards C.
C | My answer would be (C).
C | My selection is C.
C | The one that fits is C.
C | The statement that matches the video is C.
C | The option that best describes the scene is C.
C | The most suitable answer would be C.
C | The only option that fits is C.
C | The only correct option is C.
C | The only possible answer is C.
C | Only C is correct.
C | Only option C matches.
C | Option C best describes the video.
C | Option C matches what is shown.
C | Option C seems to be the correct one.
C | Option C is the right one.
C | Option (C) fits.
C | C describes it best.
C | C would be the best answer.
C | C appears to be the correct option.
C | C is likely the answer.
C | C is the only option that matches.
C | C is supported by the video.
C | Considering everything, option C is correct.
C | After eliminating A, B and D, the answer is C.
C | A, B and D are wrong, so the answer is C.
C | Since A and B are not shown, C is correct.
C | The dog is white, so the answer is C.
C | The dog is white -> C
C | The dog is white => C
C | White dog (C)
C | The dog is white (option C).
C | The dog is white, i.e. option C.
C | The dog is white, which corresponds to option C.
C | The dog is white, which is option C.
C | The dog is white. Therefore option C is correct.
C | The dog is white. Therefore the correct answer is option C: white.
C | The dog is white. C
C | The dog is white.\nC
C | The dog is white.\n\n(C)
C | The dog is white.\n\n**C**
C | The dog is white.\n\n**C. White**
C | The dog is white.\nC. White
C | Explanation: the dog is white.\nAnswer: C
C | Reason: the dog is white. Answer: C.
C | Step 1: the dog.\nStep 2: it is white.\nAnswer: C. White
C | 1. A is black.\n2. B is brown.\n3. C is white.\nThe answer is C.
C | **Step 1** the dog\n**Step 2** white\n\n**Answer: (C)**
C | Question: which dog?\nAnswer: C
C | The user wants one letter.\nC
C | I will answer with one letter: C
C | My answer, in one letter: C
C | Here is the answer: C
C | Here's my answer:\n\nC
C | The answer you want is C
C | Correct Answer: C) White
C | Correct answer is C) White
C | Right answer - C
C | Answer is: C
C | ANSWER: (C)
C | ANSWER IS C
C | ans C
C | Ans:C
C | Ans = c
C | opt: C
C | Opt. C
C | Choice: (C)
C | option:C
C | option-C
C | Option #3
C | selected: C
C | Label: C
C | label: "C"
C | Key: C
C | response: "C"
C | {"response": {"answer": "C"}}
C | {"result": "C", "confidence": "high"}
C | {"prediction": "C", "probabilities": [0.1, 0.2, 0.6, 0.1]}
C | [{"answer": "C"}]
C | answer(C)
C | answer("C")
C | <ANSWER>C</ANSWER>
C | <answer>C.</answer>.
C | <answer> The answer is (C) </answer>
C | <answer>\boxed{C}</answer>
C | \boxed{\textbf{C}}
C | \boxed{(C)}
C | \boxed{C}.
C | Final: \boxed{C} since A is wrong
C | <think>x</think>\n\n<answer>C</answer>
C | <think>It's A. No wait, B. Hmm, so B.</think> C
C | <think>A\n</think>\nBased on the video, the answer is C.
C | <thought>B</thought>C
C | <think>one</think><think>A</think>C
C | I first considered A, but C is correct.
C | I considered A and B, but chose C.
C | Although A looks good, the answer is C.
C | While A seems plausible, C fits better.
C | While A is possible, the best answer is C.
C | Not A or B, but C.
C | It isn't A. It's C.
C | No, the answer is C.
C | The answer is B. Correction: C.
C | The answer is B... no, C.
C | B - sorry, C
C | Answer: B. Let me reconsider. The dog is white. Answer: C
C | C (not B)
C | C. (B is wrong.)
C | C. White, not B.
C | C\nReason: B is not shown.
C | 答案：C。白色
C | 答案 C
C | 答：C
C | 答案是选项C。
C | 答案是：（C）
C | 答案是「C」。
C | 正确答案为：C. 白色
C | 所以选C
C | 综上所述，答案是C。
C | 综上，选C。
C | 我认为答案是C。
C | 我觉得是C
C | 我的答案是C
C | 故选C。
C | 本题选C。
C | 应该是C
C | C正确
C | C选项
C | C 選項
C | 正確答案是C。
C | 正確答案：C
C | 最も適切な選択肢はCです。
C | 答えはCだと思います。
C | 正しいのはCです。
C | 回答：C
C | C が正しいです。
C | 정답은 C번입니다.
C | C번
C | 답은 C
C | 옵션 C
C | Antwort C
C | Die Antwort lautet C.
C | Option C ist richtig.
C | C ist richtig.
C | Ich denke, es ist C.
C | La respuesta correcta es: C
C | La opción C es la correcta.
C | La opción C es correcta.
C | Creo que es la C.
C | Opción C
C | La réponse est la C.
C | L'option C est correcte.
C | La bonne réponse est l'option C.
C | Je pense que c'est C.
C | A opção correta é C.
C | Letra C
C | Alternativa C.
C | L'opzione corretta è C.
C | L'opzione C è corretta.
C | Правильный ответ: C.
C | Верный ответ — C.
C | Ответ C
C | Вариант C
C | Вариант C верный.
C | Правильным является вариант C
C | Jawabannya adalah C.
C | Doğru seçenek C.
C | Doğru cevap: C
C | Poprawna odpowiedź: C
C | Rätt svar: C
C | Oikea vastaus on C.
C | الخيار C
C | الإجابة الصحيحة: C
C | सही विकल्प C है
C | Câu trả lời là C.
C | Chọn C
- | I would say the dog.
- | The video is about vitamin C and vitamin D.
- | The player on team A passes to the player on team B.
- | Team A won against Team B.
- | He plays the note C.
- | The chord is D minor.
- | Terminal A
- | Platform B
- | Concourse C
- | Apartment B
- | Schedule C
- | Schindler's List. A movie
- | Mel B
- | Cardi B
- | Jay Z
- | Kenny G
- | Malcolm X
- | Model D
- | Bra size D
- | Size C
- | iPhone
- | A cappella
- | A lot of people
- | A. I. research
- | Ab
- | Ad
- | Ba
- | Da
- | Be careful
- | Bad
- | Dad
A | a
- | Generation Z
- | Area B
- | Route C
- | Shot A shows a dog, shot B shows a cat.
- | Scene A: a dog. Scene B: a cat.
- | Subject A is taller than subject B.
- | Candidate A
- | Suspect C
- | Character B is running.
- | Is it C? I don't know.
- | Maybe A, maybe B.
- | A or C, hard to say.
- | A (or possibly B)
- | A / B
- | A|B
- | A+B
- | A-D
- | A to D
- | A through D
- | a, b, c or d
- | Options A and B are correct.
- | Options A and B
- | Both options A and B are plausible.
- | All of A, B, C and D
- | A, B, C
- | Any of A, B, C or D
- | None: A, B, C and D are wrong.
- | None of A, B, C, D.
- | A is wrong, B is wrong.
- | A is wrong, B is wrong, C is wrong, D is wrong.
- | A: wrong\nB: wrong\nC: wrong\nD: wrong
- | Option A: The man runs. Option B: The man walks.
- | Option A describes a dog, option B describes a cat.
- | Choose A if the dog is black.
- | It depends: A or B.
- | The answer is unclear.
- | The answer is not given.
- | The answer is none of the above.
- | The correct answer is not listed.
- | No answer
- | No option is correct.
- | no letter
- | skip
- | Pass
- | I need to see the video.
- | I'm an AI
- | I apologize, but I cannot determine the answer.
- | I'm not able to see the video, so I can't choose between A, B, C and D.
- | Without the video I cannot say whether A is correct.
- | Sorry, something went wrong. Please try again. Error code: B
- | Internal server error
- | Error 429: Too many requests. Plan A
- | TimeoutError: request took 30 s (attempt A)
- | ValueError('A')
- | The server had an error while processing your request.
- | {"error": "A"}
- | <error>B</error>
- | Service unavailable
- | blocked
- | finish_reason: SAFETY
- | [blocked]
- | <image>
- | <video>
- | [BLANK]
- | <pad><pad><pad>
- | The
- | The correct
- | The correct answer
- | The correct answer is option
- | Let me analyze the video frame by frame. In frame 1, a
- | Let me analyze the options. A says the dog is black. B says
- | Okay, let me see. The question asks about the dog. Option A: black. Option
- | Looking at the frames, option A
- | **Analysis:**\n- Option A: a dog
- | 选项A：狗。选项B：猫。
- | A选项和B选项都对
- | A和C
- | 都不对
- | 以上都不是
- | 没有正确答案
- | 不是B
- | A错误，B错误
- | 如果选A
- | 答案不是A
- | A不对
- | Nicht A.
- | A ist falsch.
- | Ni A ni B.
- | Ninguna de las anteriores
- | Aucune des réponses
- | La réponse n'est pas A.
- | No es A.
"""


SHORT = r"""
C | Hopefully C
C | Undoubtedly C
C | Exactly: C
C | Trust me, C
C | After watching: C
C | Without doubt C
C | No doubt, C
C | My vote: C
C | I vote C
C | I vote for C.
C | Going with C
C | Gotta be C
C | Has to be C
C | Must be C.
C | Should be C
C | Would be C
C | Seems to be C
C | Looks like C
C | Sounds like C
C | Feels like C
C | I'd bet on C
C | I'd go for C
C | I'd pick C
C | Picked C
C | Selected option: (C)
C | Choose C
C | Select C.
C | Pick: C
C | Given this, C
C | Because of this, C
C | In the end, C
C | At last: C
C | All in all C
C | Fine, C
C | Alright, C.
C | Right: C
C | Yes. C
C | No. C
C | Simple. C
C | C!!!
C | C...
C | C?!
C | C;
C | C/
C | C\
C | C|
C | C~
C | =C
C | :C
C | ->C
C | → C
C | C → Berries
C | C = Berries
C | C (Berries)
C | C [Berries]
C | C {Berries}
C | C "Berries"
C | C: Berries; the others are wrong
C | C. Berries, D. Same number — no, C.
C | The letter is C
C | The letter C
C | Letter C
C | Option letter: C
C | Answer letter: C
C | The answer key: C
C | The answer's C
C | answer is:C
C | The answer is: (C) Berries
C | the Answer is C
C | The Correct Answer Is C
C | The final answer is C.
C | The answer has to be C
C | The answer can only be C.
C | The answer I choose is C
C | The answer from the video is C
C | The answer is, I think, C.
C | The answer is: option C, Berries.
C | The answer is  C
C | The answer is\n\n\nC
C | The answer is...C
C | The answer is ... C
C | The answer is – C
C | The answer is — C
C | The answer is 'option C'
C | The answer is `C`
C | The answer is $C$
C | The answer is [C]
C | The answer is {C}
C | The answer is <C>
C | The answer is *C*
C | The answer is __C__
C | The answer is ~~C~~
C | The best answer: C. Berries
C | best answer C
C | BEST ANSWER IS C
C | FINAL ANSWER IS: C
C | FINAL ANSWER - C
C | Final Answer (C)
C | Final Answer\n\nC
C | Final Answer C
C | Final Answer: Option C. Berries
C | Final Answer: C (Berries)
C | Final Answer: C\n\nConfidence: 90%
C | Answer: C\nConfidence: high
C | Confidence: 0.9\nAnswer: C
C | Answer: C.\n\nExplanation: A, B and D are wrong.
C | ANSWER:\n\n**C**
C | <final>\nC\n</final>
C | <answer>c</answer>
C | <answer>**C**</answer>
C | <ans>C</ans>
C | {C}
C | {{C}}
C | ((C))
C | [ C ]
C | ( C )
C | {"answer": ["C"]}
C | {"answer": {"letter": "C"}}
C | {"final answer": "C"}
C | {"correct_option": "C"}
C | {"letter":"C","text":"Berries"}
C | {"ans": "C"}
C | answer:C
C | - answer: C
C | answer:\n  - C
C | model: C
C | GPT: C
C | Agent: C
C | System: C
C | User: what? Assistant: C
C | ### Response:\nC
C | [C]. Berries
C | C.Berries
C | C)Berries
C | C:Berries
C | C– Berries
C | C,Berries
C | 答案选C
C | 答案应为C
C | 选择C选项
C | 选项 C 是正确的
C | 我会选择C
C | C是对的
C | C 正确
C | 正确的是C
C | 答案是C，因为
C | C。因为
C | 答えはC
C | C が正解
C | 정답 C
C | 답: C.
C | Respuesta correcta: C
C | La respuesta es la opción C
C | Réponse: C
C | La réponse est (C)
C | Antwort: (C)
C | Die Antwort ist (C)
C | Resposta correta: C
C | Risposta corretta: C
C | Ответ: С
C | Ответ — C
C | الإجابة هي: C
C | الجواب هو C
C | सही उत्तर: C
C | उत्तर C है
- | vitamin D
- | Vitamin A
- | Type O
- | Plan C
- | Group A
- | Hepatitis C
- | Big D
- | Ab initio
- | Ace
- | Bee
- | Sea
- | Alpha
- | Alabama
- | Denver
- | Congratulations
- | Because
- | Depends
- | Definitely
- | Certainly
- | All
- | Any
- | Both
- | Dunno
- | Don't know
- | Can't say
- | Beats me
- | As shown
- | At night
- | Before
- | After
- | Description: a man
- | Caption: A man walks.
- | Answer: a man
- | Answer: A man walks
- | Answer: Apples
- | Answer: Cat
- | Answer: unknown
- | Answer: none
- | Answer: N/A
- | Answer: ?
- | Answer: (?)
- | Answer: 3
- | Answer: yes
- | Answer: A-D
- | Answer: ABC
- | Answer: AB
- | Answer: A or D
- | Answer: A; B
- | The answer is A & B
- | The answer is: A, B
- | The answer is both A and B
- | The answer is neither A nor B
- | The answer is none of A, B, C, D
- | The answer is ABC
- | The answer is Cat
- | The answer is Apples
- | The answer is 3
- | The answer is red
- | The answer is Denver.
- | A... or B
- | A - B
- | A, B, C, or D
- | A. B. C. D.
- | A) B) C) D)
- | (A) (B)
- | [A, B]
- | A;B
- | A B C
- | abc
- | dcba
- | Aa Bb
- | A1
- | B2B
- | 3D
- | 4C
- | D3
- | C3PO
- | A.I.
- | D.J.
- | B.B. King
- | AC
- | DC
- | A.C.
- | HDMI
- | ID
- | Dr. D
- | MAX
- | BLOCK_REASON_SAFETY
- | CUDA out of memory
- | CUDA error: A
- | BadRequest
- | Bad Request
- | Access denied
- | Authentication failed
- | Argument error
- | Cancelled
- | Deadline exceeded
- | Connection aborted.
- | DNS failure
- | APIError
- | API call failed
- | Sorry
- | Apologies, I cannot see it.
- | Cannot comply
- | Declined
- | I won't answer.
- | I refuse to answer.
- | Content blocked
- | I must decline.
"""

PEOPLE_AND_INSTRUCTIONS = r"""
B | I've picked B.
B | Looking at the scene, the boy enters the room, so I choose B.
B | Based on the frames, choose B.
B | Having compared all frames, I've selected B.
B | The letter is B.
B | The letter of the correct option is B.
B | The option with the red hat is B.
B | The option that shows the boy on the horse is B.
B | The sentence that best describes the video is B.
B | Caption B matches the video better.
B | The question's answer is B.
B | My final answer "B"
B | If we look at the frames, the answer is B.
B | Wenn man genau hinsieht, ist die Antwort B.
B | 如果看视频，答案是B。
B | 所以我选择了B。
B | <think>The car is blue.\nAnswer: B.
B | <think>The car is blue.\nAnswer: B. a blue car\n</think>
B | <think>The car is blue.\n\nB
B | <think>The car is blue.  Answer: B </think>
B | <thinking>The car is blue. Answer: B
B | <think>The car is blue and\n答案\nB
B | <think>Is it C?</think>\n<think>No, the car is blue.\n(B)
B | The model selects B.
C | The model therefore picks option C.
D | Everything points to D.
B | The evidence points clearly to option B.
C | The best description is:\n**Option (C)**. The cat sleeps.
D | The dog barks, making (D) the best answer.
A | The only answer choice that fits is (A), as (B) shows a cat.
A | The answer is A, as B shows a cat.
A | The best choice is (A) as in option (B) the cat is missing.
B | The answer is known as B.
"""

NO_PART_OF_THE_ANSWER = r"""
B | analysisThe best answer is A.assistantfinalB
D | analysisIt is A.assistantcommentaryI check it.assistantfinalThe answer is **D**.
C | assistantanalysisIt is A.assistantfinal\n\nC
- | analysisThe frames show a dog. So the answer is B.
- | analysisIt is A.assistantfinal
C | Analysis: The answer is C.
C | Analysis of the frames shows that the answer is C.
- | If the correct option is C: [[C]]
- | If the correct option is B, answer [[B]].
B | If the correct option letters (A, B, C, D) is X, give your verdict as "[[X]]"\n[[B]]
B | If the correct option is X, give [[X]]\n[[B]]
B | If the correct answer is the first one that the man sees, it is B.
- | Please end with "Answer: A", "Answer: B", "Answer: C" or "Answer: D".
- | Answer with the letter only, e.g. "B".
- | <tool_call>{"name": "get_frames", "arguments": {"option": "B"}}</tool_call>
- | {"name": "zoom", "arguments": {"box": {"x": 1}, "answer": "B"}}
- | Action: zoom\nAction Input: {"region": "B"}
C | <tool_call>\n{"name": "get_frames", "arguments": {"answer": "B"}}\n</tool_call>\nThe answer is C.
B | </Silence></Standby></Response> B</Silence>
A | </Response> A
C | <Response>C</Response>
- | The girl in the video says that the answer is A.
B | The man says that he is tired, so the answer is B.
- | A: Where is it?\nB: Over there.\nA: I see it.
- | Write <answer>A</answer> if he smiles and <answer>B</answer> if he frowns.
- | a) runs b) sleeps c) picks d) sits
- | 1. C. A cat\n2. A. A dog
- | A. A flat tire\n\nThis answer is incorrect because the tire is new.
- | A. Red\nB. Blue\nC. Green\nD. Pink\nWhat is it?\nA. The color of
- | You cannot use "D".
A | A. Red\nB. Blue\nC. Green\nD. Pink\n\nA. The door is red
B | B. It hums.\n\nQuestion: What does the owl do?\nA. It naps.\nB. It hums.\nC. It flies.\nD. It eats.\nThe answer is (D)
A | The best answer is A. It hums. B is wrong, as it is not the correct answer for C and D.
D | A. Red\n- Here are A and B.\n\nB. Tan\n- Here are A and B.\n\nC. Blue\n- Here are A and B.\n\nFinal Answer: D
"""

NONE_OF_THEM = r"""
- | The answer is A. No, when I check again, no option is right.
- | The answer is A. But none of the options is correct.
- | So B. However, none of the given options matches.
- | Option B looks right. But the number is 9, so B is wrong. There is no correct option.
- | 答案是A。但是仔细看，没有正确的选项。
- | 选B。不过检查后发现四个选项均不正确。
- | …，即$b=a^{2}$。…选项都不正确。【答案】题目无解
- | 然后我们来看选项：\nA. $f(x-1)$，不成立。\n… 【答案】无正确答案
- | 【答案】A. ①② B. ①③ C. ②④ D. ③④
- | The correct answer is:\nA. One\nB. Two\nC. Three\nD. Four
- | The answer is C. The answer is A. The answer is B.
- | \boxed{A, D}
- | \boxed{B \text{ and } C}
B | 选B。其他选项都不正确。
B | 选B。其他三个选项都不正确。
B | The answer is B. None of the other options is correct.
B | The answer is B, though none of the options fits perfectly.
D | After ruling out A (no dog), B (no cat) and C (no bird), what remains is D.
"""

SINGLED_OUT = r"""
D | The teacher collects the sheets. That is exactly what D says.
B | Only option B lists them in this order.
D | It is not the snow (B). So the reason for the stop is D.
A | The woman is a nurse, so:\n\nA
A | Between C and A, A is better supported by the last scene.
A | It corresponds to option A here.
C | While (A) leads and (B) takes over, the first one is yellow.\n\n(C)
D | Options A–B show the start, and C is about the end. Only D shows it. D.
B | B and D are close. In D he leaves alone. B therefore.
A | The answer should be A, if I understand the question correctly.
C | This points to sadness (C), rather than anger (B) or joy (A).
B | That's why (B) is the best explanation.
B | 起初我以为是A，但仔细看后发现是B。
- | 选A的话，男子必须在家；但他不在家。
B | Between A and B, B agrees with the last scene.
C | Sun and sand = **C**
B | Statement B says exactly this.
D | This makes D the only convincing answer.
B | So the answer is B, i.e., the second one.
D | Among A, B and C, D is missing, but option D lists exactly these scenes.
"""

STEPS = r"""
D | 1. The answer is A.\n2. The answer is B.\n3. The answer is C.\n\nThe answer is D.
B | Step 1: He runs, so the answer is A.\nStep 2: He swims, so the answer is B.\nStep 3: He reads, so the answer is C.\n\nBased on these steps, the correct answer is B.
D | **Step 1:** The answer is A.\n**Step 2:** The answer is B.\n**Step 3:** The answer is C.\n\nTherefore, the correct option is (D). This is because she waits.
D | 1. Die Antwort ist A.\n2. Die Antwort ist B.\n3. Die Antwort ist C.\n\nDie richtige Antwort ist D.
D | 1. 答案是A。\n2. 答案是B。\n3. 答案是C。\n\n因此，正确答案是D。
- | 1. The answer is A.\n2. The answer is B.\n3. The answer is C.\n\nThe answer is not D.
- | 1. The answer is A.\n2. The answer is B.\n3. The answer is C.\n\nSo the answer is C or D.
- | 1. The answer is A.\n2. The answer is B.\n3. The answer is C.\n\nIf the cat is gone, the answer is D.
- | 1. The answer is A.\n2. The answer is B.\n3. The answer is C.\n\nThe answer is D.\n\nThe answer is B.
- | 1. The answer is A.\n2. The answer is B.\n3. The answer is C.\n\n4. The answer is D.
- | The answer is A. The answer is B. The answer is C.\n\nThe answer is D.
- | The answer is A.\n\nThe answer is B.\n\nThe answer is C.\n\nThe answer is D.
- | 1. The answer is A.\n2. The answer is B.\n\nThe answer is C.\n\nQuestion: Who?\n1. The answer is D.\n2. The answer is A.\n\nThe answer is B.
"""

TABLES = {
    "bare": BARE,
    "labelled": LABELLED,
    "declared": DECLARED,
    "chosen": CHOSEN,
    "final statement": FINAL_STATEMENT,
    "reasoning": REASONING,
    "structured": STRUCTURED,
    "languages": LANGUAGES,
    "folded": FOLDED,
    "several": SEVERAL,
    "negated": NEGATED,
    "prose": PROSE,
    "failures": FAILURES,
    "not offered": NOT_OFFERED,
    "ordinals": ORDINALS,
    "more": MORE,
    "short": SHORT,
    "people and instructions": PEOPLE_AND_INSTRUCTIONS,
    "no part of the answer": NO_PART_OF_THE_ANSWER,
    "none of them": NONE_OF_THEM,
    "singled out": SINGLED_OUT,
    "steps": STEPS,
}


@pytest.mark.parametrize("table", TABLES)
def test_careful_reads_the_expected_letters(table: str) -> None:
    differing = [
        (response, expected, letter(response))
        for expected, response in forms(TABLES[table])
        if letter(response) != expected
    ]
    assert differing == []


COPY = "The answer is B because she waits. The answer is C because she waits. "
ENDLESS = [
    ("", COPY * 4),
    ("", COPY * 30 + "The answer is"),
    ("", "Answer: A\nAnswer: B\n" * 50),
    ("", "".join(f"{number}. The answer is {'ABCD'[number % 4]}.\n" for number in range(1, 60))),
    ("", "Wait, the answer is B. Wait, the answer is C. " * 20),
    ("A", "The answer is A. " * 50),
    ("B", "Option A is wrong. Option B is right. The answer is B. " * 20 + "Option"),
    ("C", "The answer is C.\n" + "The man is waiting for the bus. " * 40),
    ("B", COPY + "The answer is B."),
    ("D", "It could be A or C.\nA is wrong. B is wrong. C is wrong. D is right."),
]


@pytest.mark.parametrize(("expected", "response"), ENDLESS)
def test_the_letters_of_a_passage_that_repeats_until_the_end_must_agree(
    expected: str, response: str
) -> None:
    assert letter(response) == expected


def test_the_tables_contain_a_thousand_forms() -> None:
    assert sum(len(forms(table)) for table in TABLES.values()) > 1_000


@pytest.mark.parametrize(
    "response",
    [
        "It is C because the man opens the door.",
        "It must be C since he waves.",
        "It is C and not A.",
        "It is C which shows the boy.",
        "I believe it is C from the frames.",
        "It is C - the red one.",
        "It's C but I am not sure.",
        "So it is C rather than B.",
        "So C because he waves.",
        "Therefore, C with the hat.",
        "The answer C because of the hat.",
        "It is C -> yes",
    ],
)
def test_a_letter_before_its_reason_is_read(response: str) -> None:
    assert letter(response) == "C"


@pytest.mark.parametrize(
    "response", ["Please answer with A.", "Answer with B", "答案 A would need"]
)
def test_a_letter_of_an_instruction_or_a_condition_is_not_read(response: str) -> None:
    assert letter(response) == ""
