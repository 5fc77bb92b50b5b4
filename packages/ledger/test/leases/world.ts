import { seededRandom } from '@weighbridge/domain';
import {
  type Counter,
  counter,
  type Fault,
  type Holder,
  type LeaseLedger,
  POLICIES,
  type PolicyName,
  type SimulatedCall,
  type SimulatedEvent,
} from './leaseLedger.ts';

export interface WorldOptions {
  readonly seed: number;
  readonly steps: number;
  readonly windowSteps: number;
  /** Hard: nothing costs more than was reserved for it. Balanced: up to twice as much. */
  readonly mode: 'hard' | 'balanced';
  /** Whether proxies crash, and whether limits and counters change. All do, unless told otherwise. */
  readonly calm?: boolean;
  readonly maxInFlight?: number;
  /** How often usage moves on when nothing else does, from 0 to 1: the less, the further the ledger is behind. */
  readonly usageRate?: number;
  readonly fault?: Fault;
}

/** A request on its way at the vendor: the vendor's bill has it already, at what it will have cost. */
interface InFlight {
  readonly id: number;
  readonly reserve: number;
  readonly cost: number;
  readonly admittedOn: readonly Counter[];
  readonly admittedStep: number;
}

/** A proxy's own book of a lease. */
interface Book {
  readonly counter: Counter;
  granted: number;
  returned: number;
  unsentReturns: number;
  spent: number;
  reserved: number;
  seq: number;
  /** When it last asked for more. */
  askedStep: number;
}

interface Proxy {
  readonly index: number;
  readonly clockSkew: number;
  epoch: number;
  /** The version of policy A's counter that it knows of. */
  version: number;
  books: Map<string, Book>;
  inFlight: InFlight[];
  spool: SimulatedEvent[];
  n: number;
}

type Message =
  | { readonly is: 'call'; readonly holder: Holder; readonly calls: readonly SimulatedCall[] }
  | { readonly is: 'answer'; readonly holder: Holder; readonly grants: readonly Grant[] }
  | { readonly is: 'event'; readonly event: SimulatedEvent }
  | { readonly is: 'end'; readonly holder: Holder; readonly lastN: number };

interface Grant {
  readonly key: string;
  readonly granted: number;
  readonly slice: number;
}

const PATIENCE_STEPS = 6;

/**
 * Three proxies spend on a ledger over a network that loses, repeats and reorders, while processes die, spools are lost,
 * limits and counters change. Rejects, naming the seed, when the vendor's bill exceeds what the limits allow, or when
 * something is still held, or the sums are wrong, once all has come to rest.
 */
export async function runWorld(ledger: LeaseLedger, options: WorldOptions): Promise<void> {
  const { steps, windowSteps, mode, calm = false, fault } = options;
  const random = seededRandom(options.seed);
  const between = (low: number, high: number) => low + Math.floor(random() * (high - low + 1));
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)] as T;

  let step = 0;
  let version = 0;
  let events = 0;
  const limits = { P: between(100, 300), A: between(60, 200), B: between(60, 200) };
  const control: Message[] = [];
  const usage: Message[] = [];
  /** By policy and window, whatever the counter: what the vendor charges, and what it may charge at most. */
  const bill = new Map<string, number>();
  const envelope = new Map<string, number>();
  /** By lease: the most that its requests in flight went over their reserves at once; and its sums as above. */
  const overage = new Map<string, number>();
  const overages = new Map<string, number>();
  const answered = new Map<string, { seq: number; granted: number }>();
  const recorded = new Map<number, SimulatedEvent>();
  const abandoned = new Set<string>();
  const proxies = [0, 1, 2].map(
    (index): Proxy => ({
      index,
      clockSkew: fault === 'stamp-at-settle' ? between(-windowSteps / 6, windowSteps / 6) : 0,
      epoch: 0,
      version: 0,
      books: new Map(),
      inFlight: [],
      spool: [],
      n: 0,
    }),
  );

  const fail = (what: string) => {
    throw new Error(`seed ${options.seed}, step ${step}: ${what}`);
  };
  const windowOf = (at: number) => Math.floor(at / windowSteps);
  const versionOf = (policy: PolicyName) => (policy === 'A' ? version : 0);
  const holderOf = (proxy: Proxy): Holder => ({ proxy: proxy.index, epoch: proxy.epoch });
  const idle = (book: Book) => book.granted - book.returned - book.spent - book.reserved;
  const bookOf = (proxy: Proxy, of: Counter): Book => {
    let book = proxy.books.get(of.key);
    if (!book) {
      book = {
        counter: of,
        granted: 0,
        returned: 0,
        unsentReturns: 0,
        spent: 0,
        reserved: 0,
        seq: 0,
        askedStep: -PATIENCE_STEPS,
      };
      proxy.books.set(of.key, book);
    }
    return book;
  };

  function checkBill(where: string): void {
    const charged = bill.get(where) ?? 0;
    const allowed = envelope.get(where) ?? 0;
    const over = mode === 'hard' ? 0 : (overages.get(where) ?? 0);
    if (charged > allowed + over)
      fail(`overspend in ${where}: bill ${charged} > ${allowed} + in-flight overage ${over}`);
  }

  function call(book: Book, want: number, minimum: number, release = false): SimulatedCall {
    book.seq++;
    const returned = fault === 'returns-as-deltas' ? book.unsentReturns : book.returned;
    book.unsentReturns = 0;
    return { counter: book.counter, seq: book.seq, returned, want, minimum, release };
  }

  /** Rules 5 and 6: from all buckets of the chain, or from none. */
  function admit(proxy: Proxy): void {
    if (proxy.inFlight.length >= (options.maxInFlight ?? 8)) return;
    const leaf = pick(['A', 'B'] as const);
    const window = windowOf(step);
    const chain = [counter(leaf, leaf === 'A' ? proxy.version : 0, window), counter('P', 0, window)];
    const reserve = between(5, 40);
    const most = mode === 'hard' ? reserve : 2 * reserve;
    const cost = random() < 0.3 ? most : between(0, most);
    const books = chain.map((of) => bookOf(proxy, of));
    const short = books.filter((book) => idle(book) < reserve);
    if (short.length > 0) {
      // Refills are single-flight; one that has no answer for so long is asked for again.
      const due = short.filter((book) => step - book.askedStep >= PATIENCE_STEPS);
      if (due.length === 0) return;
      const calls = due.map((book) => {
        book.askedStep = step;
        // What went over its reserve is a debt to be covered first.
        const minimum = reserve - Math.min(0, idle(book));
        return call(book, Math.max(minimum, between(20, 150)), minimum);
      });
      control.push({ is: 'call', holder: holderOf(proxy), calls });
      return;
    }
    for (const book of books) book.reserved += reserve;
    const request = { id: ++events, reserve, cost, admittedOn: chain, admittedStep: step };
    proxy.inFlight.push(request);
    for (const of of chain) {
      const where = `${of.policy}|${of.window}`;
      bill.set(where, (bill.get(where) ?? 0) + cost);
      const lease = `${of.key}/${proxy.index}/${proxy.epoch}`;
      const over = proxy.inFlight
        .filter((other) => other.admittedOn.some(({ key }) => key === of.key))
        .reduce((sum, other) => sum + Math.max(0, other.cost - other.reserve), 0);
      const before = overage.get(lease) ?? 0;
      if (over > before) {
        overage.set(lease, over);
        overages.set(where, (overages.get(where) ?? 0) + over - before);
      }
      checkBill(where);
    }
  }

  function settle(proxy: Proxy): void {
    const [request] = proxy.inFlight.splice(Math.floor(random() * proxy.inFlight.length), 1);
    if (!request) return;
    for (const of of request.admittedOn) {
      const book = bookOf(proxy, of);
      book.reserved -= request.reserve;
      book.spent += fault === 'forget-overage' ? Math.min(request.cost, request.reserve) : request.cost;
    }
    write(proxy, request, request.cost);
  }

  function write(proxy: Proxy, request: InFlight, cost: number): void {
    const { id, reserve, admittedOn, admittedStep } = request;
    const counters =
      fault === 'stamp-at-settle'
        ? admittedOn.map((of) =>
            counter(of.policy, of.version, Math.max(0, windowOf(step + proxy.clockSkew))),
          )
        : admittedOn;
    const event = {
      id,
      holder: holderOf(proxy),
      n: ++proxy.n,
      admittedOn,
      counters,
      cost,
      reserve,
      admittedStep,
    };
    proxy.spool.push(event);
    usage.push({ is: 'event', event });
    if (random() < 0.2) usage.push({ is: 'event', event });
  }

  /** Rule 14: idle room goes back. Asks for nothing, and so learns also what was granted by answers that were lost. */
  function giveBack(proxy: Proxy): void {
    const calls = [...proxy.books.values()].map((book) => {
      const room = Math.max(0, idle(book));
      book.returned += room;
      book.unsentReturns += room;
      return call(book, 0, 0, fault === 'close-returns-unsettled' && room > 0);
    });
    if (calls.length > 0) control.push({ is: 'call', holder: holderOf(proxy), calls });
  }

  /** The process dies; its successor finds the spool and settles the orphans at their reserves; or the spool is gone too. */
  async function crash(proxy: Proxy): Promise<void> {
    const before = holderOf(proxy);
    if (random() < 0.3) {
      abandoned.add(`${before.proxy}/${before.epoch}`);
      for (let i = usage.length - 1; i >= 0; i--) {
        const message = usage[i];
        const isOwn = message?.is === 'event' && message.event.holder.proxy === before.proxy;
        if (isOwn && message.event.holder.epoch === before.epoch && random() < 0.3) usage.splice(i, 1);
      }
    } else {
      for (const orphan of proxy.inFlight) write(proxy, orphan, orphan.reserve);
      for (const event of proxy.spool) if (random() < 0.5) usage.push({ is: 'event', event });
      usage.push({ is: 'end', holder: before, lastN: proxy.n });
    }
    Object.assign(proxy, { epoch: proxy.epoch + 1, books: new Map(), inFlight: [], spool: [], n: 0 });
    await ledger.register(holderOf(proxy), before);
  }

  async function changeLimit(): Promise<void> {
    const policy = pick(POLICIES);
    const limit = between(50, 500);
    limits[policy] = limit;
    await ledger.setLimit(policy, limit);
    const where = `${policy}|${windowOf(step)}`;
    if (!envelope.has(where)) return;
    // What was held when a limit is lowered may still be spent.
    const exposure = await ledger.exposure(counter(policy, versionOf(policy), windowOf(step)));
    envelope.set(where, Math.max(limit, exposure));
    checkBill(where);
  }

  async function changeCounter(): Promise<void> {
    version++;
    const next = counter('A', version, windowOf(step));
    await ledger.startCounter(next, step);
    const where = `A|${next.window}`;
    envelope.set(where, Math.max(limits.A, await ledger.exposure(next)));
    checkBill(where);
  }

  async function deliver(queue: Message[], isReliable: boolean): Promise<void> {
    const index = Math.floor(random() * queue.length);
    const message = queue[index];
    if (!message) return;
    // One in four comes again, at any time.
    if (isReliable || random() > 0.25) {
      queue[index] = queue.at(-1) as Message;
      queue.pop();
    }
    if (message.is === 'event') {
      recorded.set(message.event.id, message.event);
      await ledger.record(message.event);
    } else if (message.is === 'end') {
      await ledger.declareLast(message.holder, message.lastN, step);
    } else if (message.is === 'answer') {
      hear(message.holder, message.grants);
    } else if (isReliable || random() > 0.1) {
      const grants = await answerCalls(message.holder, message.calls);
      if (isReliable || random() > 0.15) control.push({ is: 'answer', holder: message.holder, grants });
    }
  }

  async function answerCalls(holder: Holder, calls: readonly SimulatedCall[]): Promise<Grant[]> {
    for (const { counter: of } of calls) {
      const where = `${of.policy}|${of.window}`;
      if (!envelope.has(where)) envelope.set(where, limits[of.policy]);
    }
    const granted = await ledger.call(holder, calls, step);
    return calls.map(({ counter: of, seq }, i) => {
      const lease = `${of.key}/${holder.proxy}/${holder.epoch}`;
      const last = answered.get(lease) ?? { seq: 0, granted: 0 };
      const now = granted[i] ?? 0;
      if (now < last.granted) fail(`${lease} was granted ${last.granted}, now ${now}`);
      if (seq <= last.seq && now > last.granted) fail(`${lease} was granted again by an old call`);
      answered.set(lease, { seq: Math.max(seq, last.seq), granted: now });
      return { key: of.key, granted: now, slice: now - last.granted };
    });
  }

  function hear(holder: Holder, grants: readonly Grant[]): void {
    const proxy = proxies[holder.proxy];
    if (proxy?.epoch !== holder.epoch) return;
    for (const { key, granted, slice } of grants) {
      const book = proxy.books.get(key);
      if (!book) continue;
      if (fault === 'grants-as-deltas') book.granted += slice;
      else book.granted = Math.max(book.granted, granted);
    }
  }

  await ledger.start({ ...limits });
  for (const proxy of proxies) await ledger.register(holderOf(proxy), undefined);
  for (step = 1; step <= steps; step++) {
    const proxy = pick(proxies);
    const chance = random();
    if (chance < 0.45) {
      admit(proxy);
      if (random() < 0.6) settle(proxy);
    } else if (chance < 0.62) settle(proxy);
    else if (chance < 0.67) giveBack(proxy);
    else if (chance < 0.7) proxy.version = version;
    else if (calm) settle(proxy);
    else if (chance < 0.72) await crash(proxy);
    else if (chance < 0.74) await ledger.expire(random());
    else if (chance < 0.755) await changeLimit();
    else if (chance < 0.765) await changeCounter();
    for (let deliveries = 0; deliveries < 2; deliveries++) {
      if (control.length > 0 && random() < 0.8) await deliver(control, false);
      else if (random() < (options.usageRate ?? 0.3)) await deliver(usage, false);
    }
  }

  // Everything ends, is delivered at last, and is handed back: twice, since the first time a proxy may learn of more.
  for (const proxy of proxies) while (proxy.inFlight.length > 0) settle(proxy);
  for (let round = 0; round < 3; round++) {
    while (control.length > 0) await deliver(control, true);
    while (usage.length > 0) await deliver(usage, true);
    if (round < 2) for (const proxy of proxies) giveBack(proxy);
  }
  await checkRest();

  async function checkRest(): Promise<void> {
    const { buckets, held } = await ledger.atRest();
    for (const { holder, key, hold } of held) {
      if (!abandoned.has(`${holder.proxy}/${holder.epoch}`)) {
        fail(`phantom: proxy ${holder.proxy} in epoch ${holder.epoch} still holds ${hold} of ${key}`);
      }
    }
    const spent = new Map<string, number>();
    for (const event of recorded.values()) {
      for (const { policy, window } of event.counters) {
        const where = `${policy}|${window}`;
        spent.set(where, (spent.get(where) ?? 0) + event.cost);
      }
    }
    for (const bucket of buckets) {
      const [policy, ofVersion, window] = bucket.key.split('|');
      const isPresent = Number(ofVersion) === versionOf(policy as PolicyName);
      const expected = spent.get(`${policy}|${window}`) ?? 0;
      if (isPresent && bucket.spent !== expected) {
        fail(`${bucket.key} says that ${bucket.spent} was spent; the events say ${expected}`);
      }
      if (bucket.leased > 0 && abandoned.size === 0) fail(`${bucket.key} still has ${bucket.leased} leased`);
    }
  }
}
