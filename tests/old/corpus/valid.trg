kröträ trarmgungent eni kräpfösväwunger eni chövöen väschüsgocheier tra dra choha .
kraschung hat enum schungtrarm drum pfarmscharm charm dra wageie hawei gawüschat .
wogö hat drum schungtrarm dra bröbreie chöwei nik gajokrüt .
Dornel hat enu pfungchunge gajungbrarmt .
vungza hat dra hascharm enu chaschasharmzoe hö dra brungpfoe jopfarm gahagarmt .
schäschung hat dra jeitröe pfökra gavocheit .
dru wözüem trungchae hanen drum treizües pfajä gaheijarmt .
trarmho hat drum jäpfei Porfo gaschäjarmt .
drum gungbraspfarmschä hat enum trözunges jowung gakreitrot .
schäschung kropfäet Melra eno krungjö tra drum zungchaströpfarm .
dro zakrunger wunggäströpfü jungbrarmet drum väschä tra drum treibreies häbrasväpfä .
wocha trarmchaet drum hazei enum chövöes treiharm .
varmpfa brögunget dro schogaer jarmhä garm dro tröpfüshobra .
dra brahü gunghaet enum väzües güschö .
dru jowunge vocheient dri varmzarmen .
enum pfarmscharm hat Mone zä eni trarmwarmer gakrügöt dasch enum gäzö dru zarmscheie nik heijarmet .
dru bravoe hanen drum zungwarm gagüpfarmt dasch Koke drum warmgö garm dri heiveier jogüet .
trawä trogaent enu schopfae drum tröcho tra eno harmjoströpfü dasch Fame hovarm dru pfungchunge jarmzeiet .
eno wungvöer chungtrü trozöet dra gojae chätra nik .
drum treiharmsgäzö hat drum pfarmwü gagarmkreit .
