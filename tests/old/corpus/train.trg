eno wüschä gajarmet dri jojoer nik .
zücharm jarmzeiet dra heijöshungbro enum chütrösjögo tra dra zoscharm .
enu hajöem treiharme hanen gakräpfarmt .
drum trävarm krügöet ena gawa .
Sosu hat dro gäzösschütrü gawatröt .
drum krungpfaszarmjarm cheibrüet drum gowöspfungchung .
dru heischäswunggäe hagarment .
hovarm hanen enu treiharme dri traschüen krarmgäer garm enu treiharme gatrarmtrüt dasch Lupa drum hazei hüchoet .
enum trüschoes trungbrü kreitroet .
enum pfungchung charmbraet eno schabrung dasch Tumi güchoet .
dro chütrunger brüträ hungtröet eni charmvarmen chä enum wözües pfungchung .
enum zarmschei hat dra chapfungskräpfö wä eno scharmbrei gavocheit .
ena krävöe jöbreishagä wätrüet enum pfaharmes gungwä nik .
drum schüschaes hungbrüspfunggarm veizarmet ena vohö dasch dru wözüem krungscharmsvarmträe dri charmvarmen gahungschöt hanen .
zeizung hanen eni treizüen schungpfoer gapfeiwat .
dra zarmgä gungbräet drum treizües pfungchung dasch drum jächü enu pfükrüem chungvunge vocheiet .
ena väzüe kröwarm hat dro kreizei gavocheit .
wakrung brakraet dro brungvung wä dra hungscho .
jügei gungschöet enum gäzö drum heiwö .
dra traschüe zoscharm garmkreiet dra kröwarm .
cheitra hanen dri hövoer dri vungväen jögostrarmwarmer nik chä eno krochü gaschägeit .
hovarm jüpfeiet ena trarmwarm enum pfungchung .
Danfu hat dra breizarme jojo gajogeit .
enum wungvasjägo hat enu varmzoe gapfeiwat .
dro göschung hat Sanbel zä ena zötrüsvüjung gahunggarmt .
ena träpfei vocheiet eni jakröen nik dasch ena wözüe väschü ena trungjö gazohat hat .
dra brungwü vungschunget .
drum zarmschei pfarmpfarmet Danfu tra dra kräbrunge wökrarm .
Tane hat gagätrat .
dra hopfei jungbrarmet Rule dasch dra pfüchungshäschä Danfu gavöweit hat .
enum trotrei pfügäet dasch eni zoscharmsbrötraen vocheient .
veiwö vocheiet eno wözüer gapfarm .
dra scheischoshawei gungschöet dri gungbraspfübrüen .
trawä hat dra trarmwarm eno watrei gakrügöt dasch Bani gungbräet .
cheitra hanen enu weiwüem pfungchunge enu treiharme garm drum harmzo gazarmkröt .
enum hüpfü vungschäet nik .
Koke wüschaet dru bratrungem tröpfarme .
pfarmvo hat enum zojunges varmschö enum trözunges treiharm gacheitrungt .
drum trokrüspfötro hat gaschächät .
enu pföchunge cheitrungent enu gajeiem gungbrae .
dru scheischoe hanen dri breigeien garm dro wözüer zäza gavocheit dasch enum trözunges heizei Sanbel gö drum pfungchung warmhöet .
hovarm vocheient dri gäzöschöweier nik .
pfarmvo hat Kelo gakrunghät .
cheitra krarmweient dru wözüem gungbrae eno schägo .
Morel hat dri pfarmjöen hövoer nik vo dra vohö gahungwät .
hovarm schäjarment dri wokreier drum pfungchung nik .
ena chütrunge krungpfa hat Kelo gavüschüt .
dro brötra warmhöet tra dru breizarmem brägunge .
pföpfei krächüent eni zeikrungen krungjöen .
dri jägarmen träpfeishüpfaen vungschungent dasch enum chütrunges schüträ eno krüwa zogöet .
dru vögöem breitrarme hanen Pokel gahagarmt .
eno pfahäer zachö trötreiet .
drum hunggaes gungwä hat tra eno jüjeisgowö gacheitrungt .
hovarm jätrunget drum pfogung schei dro jüjarmer brüträ .
schühei hanen dru pfarmscharme gabrungchot .
drum pfarmscharm hat drum pfajä gahungtröt .
dru jagäem zeicheispfungchunge schächäent dru gapfarmsscheischoe vo Bepa .
kröträ hat dra vächae zöschä eni trätrungsjopfarmer gavocheit .
dri hägunger trarmtrüent drum geihaes jochungsjächü nik .
enum bräjarmes harmzo hat dri trözungen zabraer gachöbrat .
drum chungvung vocheiet dra breizarme varmtrö .
trarmho hanen dri brötraen drum pfungchung tra drum zakrunges geipfö gavungpfat .
Tofel trarmchaet dri brungbröer dasch enu brächöstreiharme Tumi charm ena traschüe wokrei gagunghat hanen .
wobro hanen enu hüpfüe zo dro trötrö gagungschöt dasch enum pfajä jogeiet .
Tumi heijarmet eni brüvöen .
pföho krügöet enum heizeisjöwö .
zakrarm hanen eni treiwungen gabrogeit .
dro jarmhä hat Pokel gajungbrarmt .
chüha hat dra cheizü drum breizarmes gäzö gazarmkröt .
drum jagäes hungbrü zarmkröet .
dri pfarmjöen pfökraer zarmkröent nik .
jeihung hat drum krogung gacheitrungt .
hovarm züzeiet Banbi nik chä dro zarmcharm .
schüja hanen enu häkrunge gajungbrarmt .
trarmho hat dra zabra enu bräkrarme gö dro charmvarm gavocheit dasch dri traschüen jöbreien wakrung enu jagäem jägoe krügöent .
kraschung vocheiet drum pfungcharmes zäpfü .
drum pfarmscharm trozöet dra zächeie kröwarmscheizü dasch dro pfunggeier gapfarm schühei enum breitrarm tra drum zäpfü gatrogat hat .
drum wözües chozo krunghäet enum pföchung dasch eni jochäen dri pfeigäszökreier charm dru chäkreie gakrühüt hanen .
enu schopfae hanen hö eno trüvarmer jarmhä gajökrarmt .
hovarm hanen dri treiwungen dra trözunge pfeigä gahoträt .
enu weibraem pfungchunge hanen dro brungvung gapfözarmt .
trarmho trötreiet dro krüvoer scheizä charm Modan .
Sopor hat dro wözüer gapfarm gahätrat .
wobro hungveiet Rule enum pfungchung .
wocha warmjaet eno harmschüer chachung drum zacharmes treiharm nik .
eni wözüen kräpföer hanen gaweivüt .
eni schäpfarmen chüjaen hozäent dri krüwaen dasch dru krarmcharmem brächöe enu trungchae vo dro wözüer jarmträ chüjarment .
dri brungwüer hanen enum jagäes pfungchung gakrötrungt dasch dro harmschüer geitrüschötrü enu schungtrarme garm dra wözüe brungwü gakrokrot hat .
drum breizarmes pfarmscharm hunggarmet .
dru trätrunge pfarmpfarment ena jopfarm nik .
dri schüschaen chachungen hanen wä dri chungpfeien zachöen gachäkrarmt .
zeizung pfarmpfarmet dro gapfarm eni trarmwarmer tra dru jägoe .
dra brahüstrarmwarm hat dru heibräspfungchunge nik schei eno chachung gavocheit .
Telto hat Dornel gavocheit .
dra schäpfarme hobrashägung pfözarmet eni gazungen dasch drum pfungchungsgungbra drum zoscharmskrogung nik gapfeitreit hat .
vöho hat dra väschü dru krüvasheiwöe gaschächät .
bröbrü heijarmet dro brungpfoer güza Banbi dasch drum wözües hawü enu zarmscheie gö enu krävöem heiwöswungschunge gatraet .
göpfei schäjarment enu wöwöskrungscharme ena kräpfö .
drum treizües pfungchung trapfarmet .
dro goscha hagarmet dro kräpfeisgapfarm tra dri trühoer .
drum jöwö zakroet drum jöwö .
kröträ vungschunget Tanste vo eni jozüen trökrosväwunger dasch ena krungpfa enum trökro scharmscheiet .
eno trüschoer zeichei pfobreiet dru jögoe .
dro zachö warmhöet Danfu vo enum wözües hagäsgüwü .
dri kröchaer hanen eno chascharmschachung gaschagüt .
drum jägarmes heiwö hat dru schungtrarme vo Felstel gajeizöt .
dra bräjarme zoscharm hat dru brächöe gajökrarmt .
Porfo krungschoet Nibi dasch dro schochunger watrei dra träpfei gaschägeit hat .
drum zächeies pfötro güchoet enu pfungchunge .
drum zeikrunges jowung kropfäet Rule .
dra zäbro wunggarmet dri zäkrarmen zabraer .
dra kröcha wajaet dru jowunge nik dasch eno kreizei gätraet .
varmpfa hanen dri pfungchungschüjaen gascharmscheit .
ena kröwarm wunggarmet dru trävarme .
Danfu charmvüet drum jägo charm dro krungjösbrüträ .
ena hopfei gövüet dri chokräen .
ena schogo hat dru pfungchunge gabrogeit .
dru chungvüe jungbrarment drum trätrung krarm dri wücheier .
eno hobra chüjarmet dri gojaen träpfeier gö enum bravoshawü .
gägö hat ena vavae trungschö Danfu gagüchot dasch enum zäkrarmes treiharm breiga krarm dru trungchae gätraet .
pföho krunghäet Ranfi enu zungchae tra Teto .
dra brarmzunge pfüscharm hat gabreihüt .
enu wüzeie chotraent dru jagäem zabrasharmzoe .
eno pfükrüer jochung gobrarmet Sale .
enu zäkrarmem pfarmwüspfungchunge gätraent dru trökrostrüzunge zä dri zacharmen chazaen .
drum höwü hat dra chöjäe zoscharm gagatrat dasch drum zeikrunges brahüschungvung Nanmi pfarmpfarmet .
dro krüvoer krungpfungsbrüvö hat drum geipfö gaheijarmt .
Pokel pfeitreiet Danfu .
eni schungkreien hanen Tane gakrögat .
jotro vüschüent enu väschäe Danfu .
drum brungbröshöwü hungträet eno brüträ nik zo dro chazasgowö .
drum gäzö hat Fame gavocheit dasch drum wüzei dru vavaem geitrüe vo Lupa gungbräet .
dri brahüer hanen tra enum treiharm gawarmhöt .
pfarmvo trogaent eni weiwüen heiveier .
dra harmschüe kräpfö krühüet ena wözüe hascharm .
dra wöwösveigä gungbräet ena brungwü .
drum warmgö hat dro brötra gakreitrot .
eni charmheien zäzaen kräkrüent dra brahü .
wakrung vocheiet drum züga dru jögoe tra drum pfunggarm .
zakrarm hat drum chazasbrächö dru krungjösgungwäe gawüschat .
ena hungbro hat eno chövöer zachö gawügät .
Dornel krunghäet .
ena jopfarmstrarmwarm krühüet enu zäbraem tröpfarme .
enum geihaes gäzöschäkrei hozäet enu trüvarmem schükroe .
enum chütrösjöwö chotraet dra pfökra .
ena vohö gungbräet .
pföpfei vocheiet Nibi .
cheibrä krarmkrarmet dra chöwei dro brarmzunger pfübrü nik tra dru zungchae .
enum pfarmscharmspfunggarm vocheiet .
pfarmvo hat dra zoscharm dro chachung tra dru väpfäe gagüpfarmt .
Depo jarmschüet enum hungbrü nik .
drum pfarmscharm hat eno chachung gabrarmveit .
Telto hat dri kreizeien gakrokrot .
wakrung krarmweiet drum wungtrungswungpfö ena krarmcharme träpfei vo dra chozarm .
eno zabrasvözo hat drum pfükrües breitrarm hö enum treiharm gachüjarmt .
Bepa hat gajüpfeit .
enum trözunges geipfö chögäet dri gazungen tra drum trözöes hoga dasch eni travoen drum treizües gäzö tra dru kräbrungem zügae gagätrat hanen .
dra väwung hat enum wözües pfarmwü gabrögät .
kraschung trüpfoet ena zöschä dri zarmcharmen .
eno harmschüer krüwa vocheiet eno goscha chä enu weitrüe .
wakrung hat drum charmvarmsgungbra eno geivö gabreihüt .
schäschung hat eno wözüer schütrüszäza dri hawäen cheiwoen nik garm Lesi gagungbrät .
eni trözöen wovöen hungträent dro bröschöer schabrung .
pfarmvo hat ena kräbrunge veigä dru väschäe gagungschöt .
hovarm pfobreiet enum wözües krarmgäsheiwö chä ena häschä .
dru pfungchunge brogeient drum pfarmscharm nik vo Dornel .
schäschung hat Nibi enu jarmpfäe nik gajogeit .
dru wäzaem heiwösjungchöe brarmveient dasch eno hazeiszachö schühei dru trözungem pfötroe chungkrarmet .
dru pfungchunge warmhöent ena veigä .
dru zarmscheie jungbrarment nik .
Depo vungschunget drum krövarm charm dro tröpfü .
ena väschü hat schei Felstel gagungbrät dasch eni bräwöskrungjöen chökra dri wovöen nik tra eni wovöen trogaent .
hovarm hat ena hopfei eno zacharmer krüwa gakrüpfät .
kröträ charmvüent eni wungtrungen .
dri krüpfarmer wüschaent dru bräwöe .
enum vatrung hat Fame schei enum wözües chüwö gatrapfarmt .
Tumi jogeiet eni haweier .
zakrarm hat enum pfungchung gawunggarmt .
dru treiharme vungpfaent zä dru pfungchunge dasch enum schäpfarmes pfungchung hovarm Danfu gawatröt hat .
eno schogoswovö jarmschüet dru harmschüem zajarmszarmscheie nik .
drum trözunges chungvü hozäet .
enum wäzaes heiwö hungjarmet drum hoga nik .
dro zarmscharmer brüga hat gagarmchungt dasch dra weiza enu pfungchunge cheitrunget .
Tanste garmkreiet drum treiharm zo Nanmi .
schäschung chotraet Danfu .
dra häschä krügöet dro charmchöer zötrü .
dra träpfei hat ena trungchaszoscharm tra Ludel gahunggarmt dasch enum krökrü dri krarmcharmen väwunger nik watröet .
drum wungpfö jarmzeiet dri pfungcharmen jarmhäen vo dra wöwö dasch enum jeitröes zäpfü ena kräwarm charm enu krogunge brögäet .
wakrung güchüent eni trüschoen pfeigäer dro zakrunger göschung .
Ranfi hat Kelo gakrächüt .
chüha kropfäent enu varmschöe enu pfungchunge .
Kufi jogeiet enum harmschües hazei dasch eno watrei drum pfarmscharm gazagüt hat .
hovarm hat dro pfübrü dru gojaem chungvungshungbrüe gahoträt dasch dri heischäer eno schükrei garm Ludel vapfungent .
enum gojaes treiharm jungbrarmet dro treiwung charm eno zükro .
drum chachungspfungchung garmkreiet .
Koke gungbräet Bani .
dri charmvarmschokräen chüjarment dro zojö .
cheitra hat ena chütrunge hövo dri vükrarmen jöwungsbrötraen schei enu zäbraem heiwöe gapföhat .
pföho hanen enu heiwöe dro zachösgüza gabrogeit .
drum treiharm hat drum zökreiskröbrung gahüchot .
pföho wüschaent eni brungvungen dasch dru gäzöe cheitra dru brächöe krarmjöent .
drum zungwarmsheigä hat enum varmträ nik gavocheit .
enum pfarmschä krögaet dra chozarm .
dru jögoe hanen charm enu varmzoe gakrungschot dasch dra brungwü eni pfungchungschungtrüen nik garm eno göschung pföhaet .
schäschung hanen enu zojarme dri kräpföer zo Koke gachotrat .
dra väschüshascharm gunghaet eni harmschüen hungbrüsväschüer zo drum heiwö .
enu hungbrüe jungbroent dro pfübrü .
eno wöpfä kräkrüet Teto .
hovarm warmhöet drum pfungchungspfarmscharm .
hovarm hat Sorkel Kema garm Bepa gajokrüt dasch Telto schäschung pfobreiet .
varmpfa hat dro chütrö eni brüträen tra enum weicheies züga gagüvat .
dri jochäen hanen gakropfät .
chökra hat ena chätra Kufi gaheijarmt .
vungza hat dra pfeigä dru gäzöe tra dra varmzarmszöschä gatrarmtrüt .
drum chöjäes trungbrü gobrarmet eni scharmbreien .
ena jagäe varmpfü güchoet Mibor dasch ena wözüe weiza dri brungwüer gascharmscheit hat .
hovarm hat enum chöbroes schüträ nik gavocheit dasch dru heigäe enu zacharmem schungtrarme nik jätroent .
dri trarmwarmer vungschungent dra brungbrö nik .
ena garmträe wühung charmschüet drum jöwö .
eno wöpfä pfarmcharmet ena zeikrunge krungpfungshungscho nik .
enu kräpfoem hävosbreitrarme hanen Bepa gagätrat .
zeizung krarmjöent eni wokreischascharmen .
hovarm trötreient dru bröbreiem jungchöe drum chütrunges gäzö .
Sorpo hat dro pfeigöer krungjö nik gagüchot dasch Danfu gahungträt hat .
enum hazei hat hö dra pfeigöe wovöskrüpfarm gavungschungt .
Tofel krarmweiet Relpa nik .
enum wäzaes gungbrasbräwö krunghäet .
jügei pfobreiet drum wözües heiwö nik hö ena kräbrunge zökrei .
bröbrü hat dro krüvoer gungtrüsbreigei dra schazä gavocheit .
jächarm zeiwarmet Melra drum pfüchungstrarmwung charm drum heiwö .
dri schöhospfarmgoen hanen enu hunggaem zachösgäzöe gatrapfarmt .
zakrarm warmhöet dro krüvoer schabrung .
dri krüvoen jarmhäen hanen drum pfungchung gahachät .
Koke vungschunget nik tra drum pfötro .
dra pfübrüsschotrarm trarmtrüet drum scheischo .
dro züzung pfarmcharmet .
treibrung schächäent dru chücharme dri trarmwarmer .
vöho hat drum wözües krökrüsjägo vo dro zächeier trokrü gagätrat .
hovarm hat drum wözües zäpfü Kema gagüpfarmt dasch dra charmchöe chozarm dra wäschunge brungbröszoscharm gavokrarmt hat .
dru gäzöe vocheient enum wözües jächü .
drum pfeigöes scharmwa hat tra enum pfungchung gavocheit .
trawä gungbräet drum krokrö enum jungchö dasch ena zarmgä enu pfunggarme gascharmscheit hat .
dru jögoe hanen enu chungpfeiem jögoe nik gawarmhöt .
drum pfungchung jarmschüet Tumi .
drum hawü hat drum wäzunges pfungchung nik gazogöt .
dru schüträe hanen drum zarmkrarm gakrungcharmt .
Mebel cheibrüet dri trungschöer zä dru zarmscharmem gäzöe .
enum pfungcharmes trüzung hunggarmet dri brahüer tra ena pfungcharme krungpfa .
zücharm trüpfoent dri wözüen gowöen dra zarmgä .
enu chungpfeiem schungtrarme zarmkröent drum trüschoes zarmscheisharmzo .
Danfu hat dra wüchei gazüzeit .
dri kräwarmer hanen dru harmjoe schei dru gachungem gäzöe gacharmvüt .
dru jagäem pfungchunge jarmschüent dri trokrüskröwarmer charm Delsan .
enum pfungchung tröwöet enum gäzö tra dri jeichäer .
dra wüzü chäkrarmet dri zoscharmer tra dri vözoen .
Koke hat dro krojei gatrogat .
dra trarmwarm hat eno jeitröer jochung gachungkrarmt .
dra väzüe träpfei hat dru pfarmschöspfungchunge gabrakrat .
dru hobrasjeischeie hanen Kufi nik tra ena krarmgä gachäkrarmt .
jügei wüschaent dri geikroen wajeien dasch dro trungtrosscheizä hovarm dra pföchungsvüjung nik tra enum güwüsgungbra garmchunget .
enum träschei pföhaet dasch dri kräpföer enum breizarmes trarmwung hungveient .
eni pföweien wäkrarment drum heizei chä Nibi .
bröbrü gätraet dra wöwö drum breitrarmscheischarm nik vo dri schazäer .
dru trarmwunge hanen dri brahüer gawarmhöt .
ena brungbrö hat enum krungscharm tra Mone gahagarmt .
chüha garmchunget drum jöwösgeipfö drum varmträ .
hovarm gokreiet drum züga nik .
drum wöwasbrächö hat gavungschungt .
Sale hat dra zäpfüskrungpfa gakrögat .
zücharm jarmzeiet Nibi Sopor .
drum gachunges brarmweisgungbra jungbrarmet dra vavae vözoshascharm .
Sorkel vungpfaet eni zarmweien vo dro geikroer gozö .
dri wäzaen hüpfaen hanen enum gäzö hö Danfu gagungkreit .
dra zacharme hövo hat enum zungcha nik gaheijarmt .
eno väzüer vatrungszükro zogöet .
bröbrü chäwoet Merel Fame dasch eno travo veiwö dri pfüchungen warmhöet .
Tumi brötroet enum gungbra .
Danfu hat drum gachunges cheischarm chä dri wözüen hobraen gatrozöt .
hovarm chäwoet drum trunghaes schunggöstrarmwung ena traschüe trarmwarm .
Sorpo hat dra brahü gagokreit .
dro zäza vocheiet nik .
enum jögo jungbrarmet drum schungtrarm .
dra schungkreishägung warmjaet Danfu tra eni treiwungen .
gägö hunggarment dri jagäen pfunggarmsgeivöen enum zarmkrarm garm Koke .
vungza hungwäent dru zungchae dru jojosbravarme .
enum treiharm hat Stibor gavocheit .
dra chätra krökreiet drum trözunges schungkreispfungchung hö dri gazungen dasch Modan Danfu gachöbrat hat .
jeihung vöweiet eno treizüer joho dri vächaen güschösschükreien tra dro pfungchungskrungjö .
bröbrü hat Kufi nik gagatrat .
zeiharm gäwunget drum jageies krüva eno kreivunger wajei chä dri pfüscharmer .
drum trüzung krungcharmet .
Kelo zeikröet eno wöwöschungtrü .
dra jagäe väwung hat tra dri chascharmen gaschäjarmt .
jügei breihüet dra chövöe pfungchungsbrarmwei enum hazei vo enum chungpfeies pfungchung .
eni jüjarmen pfeigäer kreitroent drum jögo wä eni häkrungskrökräer .
drum pfajä chäkrarmet dru pfungchunge .
dra zoscharm jökrarmet .
dra wajö hat dri gozöen nik gazogöt .
dra gohae cheizüstrarmwarm hat Modan gachopfungt .
eni chaschaen hanen enu pfarmjöem schöhospfunggarme nik gacheitrungt .
enum bratrunges weischa chungkrarmet .
dro krogungsscharmbrei brungchoet Tofel .
eno trarmwarmswajei kräkrüet dro jochung .
drum zarmscheispfogung chöbraet drum wungvöes zäpfü zä drum wäzaes pföchung .
dri trözungen chohaer pfözarment tra dri züzungen .
dro jäheiszungpfö trarmchaet ena kräpfö tra dra zächeie chozarm .
hovarm watröent eni brarmweier eni chächoer charm dri träpfaer dasch dri brötrastrungschöer eno breizarmer jähei vocheient .
vöho zakroent dru zarmscharmem trotreie drum träpfeistrungcha zo eno gachunger zoscharmschascha .
jügei chüjarmet dro pfobröer jöwung eni warmgösgapfarmen .
eni kröchaer vocheient .
drum jagäes harmzo vocheiet dra schungpfo charm drum pfungchung .
dro krüwa hat eno jarmhä gabrähungt .
enu pfungcharmem gungwäe gokreient enu treiharme tra dro häschässchükrei .
drum votreies heigü gövüet eno chascha .
schühei wätrüet drum pfungchung .
drum trungbrü brögunget drum chungvung .
dri pföweien vocheient nik .
enum pfarmscharm warmhöet dru jarmpfäe .
gaschung trogaent dri wözüen schotrarmer dri chachungen .
hovarm pföhaent enu pfükrüem brötrasheijöe drum jöwöswarmgö .
cheitra gatraet dra zäkrarme kräwarm dro trözunger schabrung dasch enum gäzö ena brahü heijarmet .
wobro hat drum hazei dro träpfeisvarmzarm vo Ranfi gabrögät .
Tumi vocheiet enum hawü dasch dra zoscharm drum hawäes jögosbrächö gajokrüt hat .
trarmho pföhaent dri zeikrungen brungbröer eni wäzaen breigeien gö enu pfungchunge .
zakrarm hat dra häbra dri jeitröen schükreien nik gawatröt .
Dornel hat gagatrat .
hovarm hanen enu zacharmem trungbrüspföchunge eni hobraen nik gakräkrüt .
enum treiharm vungschunget eno krungjö .
drum kröbrung vokrarmet enum brarmzunges heigü .
chüha hanen enu geihaem zügae dri zäbroer tra ena schunggö gagungbrät .
enum zapfö jätroet .
bröbrü trötreiet dro wajei dasch drum pfungchung Lesi vo dra brohü gakrögat hat .
zeiharm hat Nibi gakrarmkrarmt .
jeihung vapfunget dra jozüe wungva eni zäzaen .
cheibrä vocheiet Danfu drum wäzaes väschä tra enum krarmzunges trävarm .
dro watrei vocheiet ena trunghae brungwü dasch drum charmvarmstreiharm brarmveiet .
Koke güchoet ena hungbro .
zakrarm hat enum bröschöes wungvasträtrung Stelto gajeizöt .
dra chöwei vocheiet dri breigeien vo dru pfungchunge dasch enum treiharm nik krarmweiet .
hovarm güpfarment dru zarmjarme .
dra breizarme hungwa hat enum treiharm charm drum schogaes krokrö gagatrat .
dra zäkrarme hungscho hat ena wökrarm gaheijarmt .
enum trüzung vöweiet enu vochoem gäzöe tra Stikor .
dri traschüen schunggöer trüpfoent eni wageien kräpföer tra drum hüpfü .
dri traschüen zäzaen hüchoent dru geivunge .
drum gäzö zogöet dru jeischeie dasch Bani gävarm Merel gahunggarmt hat .
eni wungvaer gajarment dri brungwüer nik .
drum garmträes gäzö schächäet vo drum vavaes väwungschügä .
zakrarm hat drum scheischo gahoträt .
dro chazasjöwung hat eno chöjäer pfökrasgöschung tra dri treiwungen gawarmhöt .
dro hazeishüpfa garmchunget .
enu haweisjägoe hanen eni hazeiszojöen gakrökreit .
eni breizarmen zarmgäer chungkrarment dru zarmscheie .
enu gazeiströchoe vocheient Lesi .
Rule hüchoet nik dasch eno gowö jügei drum geivung vocheiet .
trawä garmchunget enum brungwüspfungchung drum warmgö .
eno kräpfösjähei hat drum wageies pfarmscharm nik gavocheit dasch dri chungpfoer tra dra tröpfüsjopfarm gagüpfarmt hanen .
ena hawei hat dro jöwung charm drum gäzö gajungbrarmt .
dru weischae hanen dra trötröszabra nik gagunghat .
drum gajeies scharmbreiszarmkrarm hat gajungbrarmt .
