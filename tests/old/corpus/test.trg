drum chungvung vocheiet drum brüwäes chügä .
Nanmi hat enu pfungchunge gajungbrarmt .
dri jarmträen vocheient enum treiharm chä dru zatrunge dasch eni zötrüen wocha dru gäzöe kreitroent .
jotro gätraet ena gapfarmsväwung Testi .
enum treizües jöwö pfeiwaet enum trungcha nik .
Dornel hat drum pfungchung vo Depo gakrungschot .
pfarmvo hat enum jöwungsharmzo ena brahü garm dru warmgöe gahüchot .
enu gäzöe warmhöent dra brungwü .
gägö kräkrüent dru heigäströkroe eno jungtra .
schüja pfarmpfarmet ena kräpföschächä nik .
eno krüvoer chascharm hagarmet Forpu nik vo eno kreizei .
enu brächöspfungchunge kropfäent dro gungtrü dasch dra chätra treiza enum chungvü krarmjöet .
dra jeitröe brungwü hat Lesi gaschägeit .
jächarm hanen dru brächöe enu zatrunge gabrarmveit .
wocha wunggarmet drum jarmträströcho enum gaschä tra enum chütrunges krökrü .
trawä zagüet drum jozöes jöwö dro vobroer güza nik .
schüja hat drum treivei dru breizarmem gäzöe nik gachäkrarmt .
dru trävarme brakraent dri zarmcharmen tra ena schungpfo dasch dru pfungchunge dri breizarmen brügaen wüschaent .
drum chungvü hat enum gäzö vo drum heizei gabrögungt .
dra trarmwungsjopfarm hat dri chöbroen wovöen gajungbrot .
