import type { components } from '@weighbridge/client';
import { api } from '../api/client.ts';
import { Time } from '../ui/bits.tsx';
import { Modal } from '../ui/Modal.tsx';
import { Loaded } from '../ui/Page.tsx';
import { Table } from '../ui/Table.tsx';
import { count } from '../ui/text.ts';
import { usd } from './prices.ts';

type Version = components['schemas']['CatalogPrice'];
type Amounts = Pick<
  components['schemas']['FullPrice'],
  'input_price' | 'output_price' | 'cache_read_price' | 'cache_write_price'
>;

/** A version of a price, or one of its tiers. */
interface Row {
  readonly of: Version;
  /** Undefined: for requests below the first tier. */
  readonly above: number | undefined;
  /** Null: from this version on, the model has no price. */
  readonly amounts: Amounts | null;
}

/** The newest versions of a model's price. A charge names the version that it was computed with. */
export function PriceVersions({ model, onClose }: { model: string; onClose: () => void }) {
  const query = api.useQuery('get', '/api/v1/catalog/models/{model}/prices', {
    params: { path: { model }, query: { page_size: 100 } },
  });
  const amount = (title: string, name: keyof Amounts) => ({
    title,
    value: ({ amounts }: Row) => (amounts ? usd(amounts[name]) : '–'),
    end: true,
  });
  return (
    <Modal title={`Versions of the price of ${model}`} onClose={onClose} wide>
      <p>In USD for a million tokens, the newest first. A longer input has the prices of its tier.</p>
      <Loaded query={query}>
        {({ data }) => (
          <Table<Row>
            caption={`Versions of the price of ${model}`}
            rows={data.flatMap(rowsOf)}
            rowKey={({ of, above }) => `${of.version} ${above}`}
            columns={[
              {
                title: 'Version',
                value: ({ of, above }) => (above === undefined ? `v${of.version}` : ''),
              },
              {
                title: 'Input tokens',
                value: ({ above }) => (above === undefined ? 'any' : `above ${count(above)}`),
              },
              amount('Input', 'input_price'),
              amount('From cache', 'cache_read_price'),
              amount('To cache', 'cache_write_price'),
              amount('Output', 'output_price'),
              { title: 'From', value: ({ of, above }) => (above === undefined ? of.origin : '') },
              {
                title: 'Since',
                value: ({ of, above }) => (above === undefined ? <Time at={of.created_at} /> : ''),
              },
            ]}
            empty={<p>The model never had a price.</p>}
          />
        )}
      </Loaded>
    </Modal>
  );
}

function rowsOf(of: Version): Row[] {
  const tiers = of.price?.tiers ?? [];
  return [
    { of, above: undefined, amounts: of.price },
    ...tiers.map((tier) => ({ of, above: tier.above_input_tokens, amounts: tier })),
  ];
}
