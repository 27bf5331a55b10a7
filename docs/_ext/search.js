/* How search results are ordered: pages to learn from come before single methods, and those before the project's history. */
var Scorer = {
  score: ([page, title, anchor, description, score, file, kind]) => {
    if (/^(changelog|architecture|bad_inputs|study\/|api\/|commands)/.test(page)) return score - 6;
    if (/^(guide\/|quickstart|should_i|one_sided|mnar)/.test(page)) return score + 6;
    return score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 5, 1: 0, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
