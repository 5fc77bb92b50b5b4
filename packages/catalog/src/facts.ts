import { readdir, readFile } from 'node:fs/promises';
import Type, { type Static, type TOptional, type TSchema } from 'typebox';
import { Errors } from 'typebox/value';
import { CLASSES, type PriceClass } from './rates.ts';

const FOLDER = new URL('../facts/', import.meta.url);

const Strict = <Fields extends Parameters<typeof Type.Object>[0]>(fields: Fields) =>
  Type.Object(fields, { additionalProperties: false });
const Price = Type.String({ pattern: '^\\d{1,9}(\\.\\d{1,9})?$' });
const Factor = Type.String({ pattern: '^\\d+(\\.\\d+)?(/\\d+(\\.\\d+)?)?$' });
const Day = Type.String({ format: 'date' });
const Name = Type.String({ minLength: 1 });
const Why = Type.String({ minLength: 10 });
const Sources = Type.Array(Name);
const Class = Type.Enum([...CLASSES]);
const byClass = <Schema extends TSchema>(schema: Schema) =>
  Object.fromEntries(CLASSES.map((name) => [name, Type.Optional(schema)])) as Record<
    PriceClass,
    TOptional<Schema>
  >;

const rates = {
  ...byClass(Price),
  input_price: Price,
  output_price: Price,
};
const DatedRates = Strict({
  from: Type.Union([Day, Type.Null()]),
  ...rates,
  price_tiers: Type.Optional(
    Type.Array(Strict({ above_input_tokens: Type.Integer({ minimum: 1 }), ...rates }), { minItems: 1 }),
  ),
});
/** A condition's prices as a multiple of the list price, with other multiples for some classes. */
const Multiple = Strict({
  times: Factor,
  except: Type.Optional(Strict(byClass(Factor))),
  why: Type.Optional(Why),
  sources: Type.Optional(Sources),
});
const Multiples = Type.Optional(Type.Record(Type.String({ pattern: '^[a-z0-9_-]+$' }), Multiple));
/** A class that the package lacks: a price, or a multiple (default 1) of another class. */
const Added = Type.Union([Strict({ price: Price }), Strict({ of: Class, times: Type.Optional(Factor) })]);
const Score = Strict({ score: Type.Number({ minimum: 0, maximum: 100 }), source: Name });
const ToolPrices = Type.Record(Type.String({ pattern: '^[a-z0-9_]+$' }), Price);

const ModelFacts = Strict({
  name: Name,
  /** The provider made the model; false if it serves one that another company made. Absent: as `own_models` of the file. */
  own: Type.Optional(Type.Boolean()),
  /** The package's model whose price holds, if the package has no model of exactly this name. */
  priced_as: Type.Optional(Name),
  prices: Type.Optional(Type.Array(DatedRates, { minItems: 1 })),
  /** What the package says and why it does not hold. The generator stops when the package changes its mind. */
  instead_of_package: Type.Optional(Strict({ input_price: Price, output_price: Price, why: Why })),
  unpriced: Type.Optional(Why),
  adds: Type.Optional(Strict(byClass(Added))),
  service_tiers: Multiples,
  speeds: Multiples,
  geographies: Multiples,
  tool_prices: Type.Optional(ToolPrices),
  context_window: Type.Integer({ minimum: 1 }),
  max_output_tokens: Type.Union([Type.Integer({ minimum: 1 }), Type.Null()]),
  capabilities: Type.Array(Type.String({ pattern: '^[a-z0-9_]+$' })),
  released_at: Type.Union([Day, Type.Null()]),
  deprecated_at: Type.Union([Day, Type.Null()]),
  benchmark_scores: Strict({
    mmlu: Type.Optional(Score),
    human_eval: Type.Optional(Score),
    mt_bench: Type.Optional(Score),
  }),
  note: Type.Optional(Name),
  sources: Sources,
});
export type ModelFacts = Static<typeof ModelFacts>;
export type Multiple = Static<typeof Multiple>;

const Facts = Strict({
  provider: Type.String({ pattern: '^[a-z0-9-]+$' }),
  /** The provider's id in the package; null: the package does not have it. */
  package_provider: Type.Union([Name, Type.Null()]),
  source: Name,
  /** The provider made most of its models. If several providers have a bare name, the one that made the model serves it. */
  own_models: Type.Boolean(),
  sources: Type.Record(Name, Strict({ name: Name, url: Type.Optional(Name), date: Day })),
  image_input_costs_input: Type.Optional(Strict({ why: Why, sources: Sources })),
  service_tiers: Multiples,
  tool_prices: Type.Optional(Strict({ prices: ToolPrices, why: Why, sources: Sources })),
  /** Models of the package that are not listed, and why. */
  excluded: Type.Record(Name, Why),
  models: Type.Array(ModelFacts),
});
export type Facts = Static<typeof Facts>;

/** Checks the content of a facts file. Throws with the file and field. */
export function parseFacts(file: string, content: unknown): Facts {
  const [error] = Errors(Facts, content);
  if (error) throw new Error(`facts/${file} ${error.instancePath}: ${error.message}`);
  const facts = content as Facts;
  for (const { name, sources } of facts.models) {
    const unknown = sources.find((source) => !facts.sources[source]);
    if (unknown) throw new Error(`facts/${file}: ${name} names the source ${unknown}, which the file lacks.`);
  }
  return facts;
}

/** The facts of every provider, by provider. */
export async function readFacts(): Promise<Facts[]> {
  const files = (await readdir(FOLDER)).filter((file) => file.endsWith('.json')).sort();
  return await Promise.all(
    files.map(async (file) => parseFacts(file, JSON.parse(await readFile(new URL(file, FOLDER), 'utf8')))),
  );
}
