#include "fovea/text/clause_english.h"

namespace fovea::text {

// Columns stand apart by tabs.
const std::string_view kEnglishClauses =
    R"EN(# English signal words, from grammar. KIND <tab> WORDS [<tab> TAGS [<tab> CONTEXT]]; tags are Universal and Penn
# Treebank tags.
punctuation	, . ; : ! ? … – — ， 。 ； ： ！ ？ 、
punctuation	- -- ...
closing	" ” ’ » ) ] } '' -rrb- -rsb- -rcb-
closing	'	PUNCT '' " `` :
opening	“ ‘ « ( [ { `` -lrb- -lsb- -lcb-
abbreviation	mr
abbreviation	mrs
abbreviation	ms
abbreviation	dr
abbreviation	prof
abbreviation	st
abbreviation	sr
abbreviation	jr
abbreviation	gen
abbreviation	col
abbreviation	capt
abbreviation	lt
abbreviation	sgt
abbreviation	rep
abbreviation	sen
abbreviation	gov
abbreviation	vs
abbreviation	etc
abbreviation	inc
abbreviation	ltd
abbreviation	co
abbreviation	corp
abbreviation	dept
abbreviation	no
abbreviation	vol
abbreviation	jan
abbreviation	feb
abbreviation	mar
abbreviation	apr
abbreviation	jun
abbreviation	jul
abbreviation	aug
abbreviation	sep
abbreviation	sept
abbreviation	oct
abbreviation	nov
abbreviation	dec
abbreviation	e.g
abbreviation	i.e
abbreviation	u.s
abbreviation	u.k
abbreviation	u.n
abbreviation	a.m
abbreviation	p.m
conjunction	as soon as
conjunction	as long as
conjunction	as well as
conjunction	as if
conjunction	as though
conjunction	even if
conjunction	even though
conjunction	so that
conjunction	such that
conjunction	in order that
conjunction	in case
conjunction	provided that
conjunction	now that
conjunction	except that
conjunction	rather than
conjunction	no matter
conjunction	given that
conjunction	not only
conjunction	but also
conjunction	either	CCONJ CC
conjunction	neither	CCONJ CC
conjunction	nor	SCONJ CCONJ CC IN WRB RB
conjunction	or	SCONJ CCONJ CC IN WRB RB
conjunction	and	SCONJ CCONJ CC IN WRB RB
conjunction	but	SCONJ CCONJ CC IN WRB RB
conjunction	yet	SCONJ CCONJ CC
conjunction	so	SCONJ CCONJ CC IN
conjunction	because	SCONJ CCONJ CC IN WRB RB
conjunction	although	SCONJ CCONJ CC IN WRB RB
conjunction	though	SCONJ CCONJ CC IN WRB RB
conjunction	unless	SCONJ CCONJ CC IN WRB RB
conjunction	until	SCONJ
conjunction	until	IN	clause
conjunction	till	SCONJ
conjunction	till	IN	clause
conjunction	while	SCONJ CCONJ CC IN WRB RB
conjunction	whereas	SCONJ CCONJ CC IN WRB RB
conjunction	whenever	SCONJ CCONJ CC IN WRB RB
conjunction	wherever	SCONJ CCONJ CC IN WRB RB
conjunction	once	SCONJ IN
conjunction	since	SCONJ
conjunction	since	IN	clause
conjunction	if	SCONJ CCONJ CC IN WRB RB
conjunction	whether	SCONJ CCONJ CC IN WRB RB
conjunction	lest	SCONJ CCONJ CC IN WRB RB
conjunction	after	SCONJ
conjunction	after	IN	clause
conjunction	before	SCONJ
conjunction	before	IN	clause
conjunction	as	SCONJ
conjunction	as	IN	clause
conjunction	than	SCONJ
conjunction	than	IN	clause
conjunction	when	SCONJ
conjunction	when	ADV WRB	adverbial
conjunction	for	SCONJ IN	pause-clause
conjunction	albeit	SCONJ CCONJ CC IN
conjunction	plus	CCONJ CC	tagged
conjunction	&	CCONJ CC	tagged
relative	who	PRON WP
relative	whom	PRON WP
relative	whose	PRON DET WP$
relative	which	PRON DET WDT
relative	that	PRON SCONJ WDT WP IN
relative	what	PRON DET WP WDT
relative	whoever	PRON WP
relative	whatever	PRON DET WP WDT
relative	whichever	PRON DET WDT
relative	where	ADV SCONJ WRB
relative	when	ADV SCONJ WRB
relative	why	ADV SCONJ WRB
relative	how	ADV SCONJ WRB
relative	in which
relative	of which
relative	to which
relative	for which
relative	on which
relative	with which
relative	by which
relative	from which
relative	of whom
relative	with whom
relative	to whom
relative	for whom
preposition	according to
preposition	because of
preposition	due to
preposition	instead of
preposition	in front of
preposition	in spite of
preposition	in addition to
preposition	on top of
preposition	out of
preposition	as for
preposition	apart from
preposition	next to
preposition	close to
preposition	thanks to
preposition	up to
preposition	such as
preposition	along with
preposition	about	ADP IN RP TO
preposition	aboard	ADP IN RP TO
preposition	above	ADP IN RP TO
preposition	across	ADP IN RP TO
preposition	after	ADP IN RP TO
preposition	against	ADP IN RP TO
preposition	along	ADP IN RP TO
preposition	alongside	ADP IN RP TO
preposition	amid	ADP IN RP TO
preposition	amidst	ADP IN RP TO
preposition	among	ADP IN RP TO
preposition	amongst	ADP IN RP TO
preposition	around	ADP IN RP TO
preposition	as	ADP IN RP TO
preposition	at	ADP IN RP TO
preposition	before	ADP IN RP TO
preposition	behind	ADP IN RP TO
preposition	below	ADP IN RP TO
preposition	beneath	ADP IN RP TO
preposition	beside	ADP IN RP TO
preposition	besides	ADP IN RP TO
preposition	between	ADP IN RP TO
preposition	beyond	ADP IN RP TO
preposition	by	ADP IN RP TO
preposition	concerning	ADP IN RP TO
preposition	despite	ADP IN RP TO
preposition	down	ADP IN RP TO
preposition	during	ADP IN RP TO
preposition	except	ADP IN RP TO
preposition	for	ADP IN RP TO
preposition	from	ADP IN RP TO
preposition	in	ADP IN RP TO
preposition	inside	ADP IN RP TO
preposition	into	ADP IN RP TO
preposition	like	ADP IN RP TO
preposition	near	ADP IN RP TO
preposition	of	ADP IN RP TO
preposition	off	ADP IN RP TO
preposition	on	ADP IN RP TO
preposition	onto	ADP IN RP TO
preposition	outside	ADP IN RP TO
preposition	out	ADP IN	tagged
preposition	over	ADP IN RP TO
preposition	past	ADP IN RP TO
preposition	per	ADP IN RP TO
preposition	regarding	ADP IN RP TO
preposition	since	ADP IN RP TO
preposition	than	ADP IN RP TO
preposition	through	ADP IN RP TO
preposition	throughout	ADP IN RP TO
preposition	till	ADP IN RP TO
preposition	toward	ADP IN RP TO
preposition	towards	ADP IN RP TO
preposition	under	ADP IN RP TO
preposition	underneath	ADP IN RP TO
preposition	until	ADP IN RP TO
preposition	unlike	ADP IN RP TO
preposition	up	ADP IN	tagged
preposition	upon	ADP IN RP TO
preposition	v	ADP IN	tagged
preposition	versus	ADP IN
preposition	via	ADP IN RP TO
preposition	vs.	ADP IN
preposition	with	ADP IN RP TO
preposition	within	ADP IN RP TO
preposition	without	ADP IN RP TO
infinitive	to	PART
infinitive	to	TO	infinitive
preposition	to	ADP IN TO
participle	*	VBG VBN	modifier
)EN";

}  // namespace fovea::text
