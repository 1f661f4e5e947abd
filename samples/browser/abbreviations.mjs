// Words that say whether a full stop beside them ends a sentence (hushdoc.hashing.segmentation).

const set = (words) => new Set(words.trim().split(/\s+/));
/** Words around a full stop, in the groups of the rules. */
export const RULES = {
  never: set(`
  approx avv bijv bzw c.f.r cf d.h d.w.z dhr dott dr drs e.g eg fa gem ggf herr hon i.e ie ing
  inkl lic messrs mevr mlle mme mr mrs ms o.a p.es p.ex prof rev s.o sr sra srta t.a.v u.a
  u.s.c vgl viz vs z.b им напр рис см ст стр`),
  beforeNumber: set(`
  abs app apr art arts aug bl blz cap ch cl dec dez ex exh feb febr fig figs jan jul jun lit
  mar n no nos nov nr num núm oct okt p pag par para paras pg pp pt pág págs ref reg regs
  sched sec secs sect sep sept st stat vol ziff г п`),
  sometimes: set(`
  a.g a.m b.a b.v bros cie co corp d.c dept e.u enz esq est etc gmbh inc jr l.l.c l.p llc llp
  ltd ltda m.d n.v p.m ph.d plc s.a s.a.s s.p.a s.r.l snr u.k u.n u.s u.s.a usw др т.д т.п`),
  starters: set(`
  a accordingly all an any as at both buyer by ce ces cette company customer das de der deze
  die diese dieser dieses distributor dit each een ein eine either el elle en esta este every
  except for from furthermore he here het however if il im in indien it its la las le les
  licensee licensor los neither no nothing notwithstanding on our parties party seller she si
  soweit subject such supplier that the their there therefore these they this those to un una
  une unless until upon we wenn when where while with without you`),
  months: set(`
  april august augustus december dezember februar februari januar januari juli juni jänner
  maart mai mei märz november oktober september`),
};
