"""Which questions ask for what no longer is, in ten languages."""

from __future__ import annotations

import pytest

from memlite import former

ASK = """
Where did Ana live before?
Where did Ana use to live?
Where did Ana used to live?
What was the gym Ana used to visit?
What was the gym she used to visit?
Who used to be Ana's boss?
Where was Ana living formerly?
What was Ana's former home?
Ana's previous employer
Where did Ana live until recently?
Where did Ana once live?
Which car did she once own?
What was Ana's old address?
Where did Ana live before she moved to Porto?
Where did Ana live before Lisbon?
Which job had Ana before moving to Porto?
Where did we live before the move?
What does Ana no longer eat?
Doesn't Ana eat meat anymore?
Wo hat Ana früher gewohnt?
frühere Adresse
Wie lautete Annas alte Adresse?
Was war Annas ehemaliger Beruf?
Was isst Anna nicht mehr?
Wo wohnte Anna, bevor sie nach Porto zog?
Où habitait Anne avant ?
Où habitait Anne avant de déménager ?
Quel était l'ancien métier d'Anne ?
Que ne mange plus Anne ?
¿Dónde vivía Ana antes?
¿Dónde vivía Ana antes de mudarse?
¿Cuál era la antigua dirección de Ana?
¿Qué ya no come Ana?
Dove abitava Anna prima?
Dove abitava Anna prima di trasferirsi?
Qual era il vecchio indirizzo di Anna?
Cosa non mangia più Anna?
Onde a Ana morava antes?
Onde costumava a Ana morar?
Qual era a antiga morada da Ana?
O que a Ana já não come?
Waar woonde Ana vroeger?
Wat was Ana's oude adres?
Wat eet Ana niet meer?
安娜以前住在哪里？
安娜之前住在哪里？
安娜的旧地址是什么？
アナは以前どこに住んでいましたか
アナは以前はどこに住んでいましたか
アナの前の仕事は何ですか？
아나는 예전에 어디에 살았나요?
아나의 옛 주소는?
아나는 전에 어디서 일했나요?
""".split("\n")[1:-1]

DO_NOT = """
Where does Ana live now?
Where should Ana live before winter?
Where did Ana live before Christmas?
Where did Ana live last year?
What is Ana's axe used to chop?
What is the knife used to cut?
Is Ana's axe sharp enough before we go?
Is Ana used to cold?
She is getting used to Porto, why?
What did Ana do the day before?
What did Ana do the previous Friday?
How often once a week does Ana swim?
Tell me once more where Ana lives.
Once Ana arrives, where do we go?
How old is Ana?
Do you want any more cake?
What must I buy before the party?
Will Ana be there before 5pm?
Soll ich früher aufstehen?
Kommt Anna früher oder später?
Was machte Anna am Tag zuvor?
Wie ist die alte Frau?
Que fait-elle avant la réunion ?
¿Qué hace Ana antes de la reunión?
Hazlo cuanto antes
Qual è la prima cosa che fa Anna?
Cosa fa Anna prima di cena?
O que faz a Ana antes do jantar?
Komt Ana vroeger dan Ben?
三点以前安娜做什么？
会议之前安娜做什么？
駅の前は何ですか
三時以前に来ますか
아나는 회의 전에 무엇을 하나요?
""".split("\n")[1:-1]


@pytest.mark.parametrize("question", ASK)
def test_a_question_about_what_has_passed_is_told(question: str) -> None:
    assert former.asked_for(question)


@pytest.mark.parametrize("question", DO_NOT)
def test_what_only_looks_so_is_not(question: str) -> None:
    assert not former.asked_for(question)
