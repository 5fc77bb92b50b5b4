import type { components } from '@weighbridge/client';
import { api, client } from '../api/client.ts';
import { isOperator, readsAll, useWhoami } from '../app/session.ts';
import { Badge, Name, Time } from '../ui/bits.tsx';
import { enteredValues } from '../ui/fieldSpecs.ts';
import { SpecFields } from '../ui/fields.tsx';
import { Page, Section } from '../ui/Page.tsx';
import { ConfirmModal, RowActions, useDialog } from '../ui/resources.tsx';
import { given, useSearch } from '../ui/search.ts';
import { type Column, List } from '../ui/Table.tsx';
import { count } from '../ui/text.ts';
import { Aliases } from './Aliases.tsx';
import { Feed } from './Feed.tsx';
import { PriceVersions } from './PriceVersions.tsx';
import { PRICE_SPECS, usd } from './prices.ts';

type Model = components['schemas']['Model'];
interface ModelDialog {
  readonly model: string;
  readonly onClose: () => void;
}

export function Models() {
  const [search] = useSearch();
  const { dialog, open, close } = useDialog();
  const whoami = useWhoami();
  const query = api.useQuery('get', '/api/v1/models', {
    params: { query: { page_size: 100, ...given(search, ['page_token']) } },
  });
  const columns: Column<Model>[] = [
    {
      title: 'Model',
      value: ({ model, deprecated_at }) => (
        <>
          <Name text={model} /> {deprecated_at && <Badge tone="warn">deprecated</Badge>}
        </>
      ),
      wrap: true,
    },
    { title: 'Input', value: ({ input_price }) => usd(input_price), end: true },
    { title: 'From cache', value: ({ cache_read_price }) => usd(cache_read_price), end: true },
    { title: 'To cache', value: ({ cache_write_price }) => usd(cache_write_price), end: true },
    { title: 'Output', value: ({ output_price }) => usd(output_price), end: true },
    { title: 'Context', value: ({ context_window }) => count(context_window), end: true },
    { title: 'Price from', value: ({ price_origin }) => price_origin, spare: true },
    { title: 'Priced', value: ({ priced_at }) => <Time at={priced_at} />, spare: true },
  ];
  const actions = ({ model, price_origin }: Model) => [
    { label: 'Versions', run: () => open(<PriceVersions model={model} onClose={close} />) },
    { label: 'Set price', run: () => open(<SetPrice model={model} onClose={close} />) },
    ...(price_origin === 'operator'
      ? [{ label: 'End price', danger: true, run: () => open(<EndPrice model={model} onClose={close} />) }]
      : []),
  ];
  return (
    <Page title="Models & prices" lead="Models that you can use, with prices in USD for a million tokens.">
      {readsAll(whoami) && <Feed />}
      {readsAll(whoami) && <Aliases />}
      <Section title="Models">
        <List<Model>
          query={query}
          caption="Models"
          rowKey={({ model }) => model}
          columns={
            isOperator(whoami)
              ? [
                  ...columns,
                  {
                    title: 'Actions',
                    value: (one) => <RowActions of={one.model} actions={actions(one)} />,
                    end: true,
                  },
                ]
              : columns
          }
          empty={<p>No model can be asked. An operator adds a connector first.</p>}
        />
      </Section>
      {dialog}
    </Page>
  );
}

const readModel = (model: string) => () =>
  client.GET('/api/v1/catalog/models/{model}', { params: { path: { model } } });

function SetPrice({ model, onClose }: ModelDialog) {
  return (
    <ConfirmModal
      title={`Set the price of ${model}`}
      submit="Set the price"
      id={model}
      read={readModel(model)}
      act={(header, texts) =>
        client.POST('/api/v1/catalog/models/{model}/prices', {
          params: { path: { model }, header },
          body: enteredValues(PRICE_SPECS, texts) as never,
        })
      }
      onClose={onClose}
    >
      <p>In USD for a million tokens. It replaces the catalog’s price from now on.</p>
      <SpecFields specs={PRICE_SPECS} />
    </ConfirmModal>
  );
}

function EndPrice({ model, onClose }: ModelDialog) {
  return (
    <ConfirmModal
      title={`End the price of ${model}`}
      submit="End the price"
      danger
      id={model}
      read={readModel(model)}
      act={(header) =>
        client.DELETE('/api/v1/catalog/models/{model}/prices', { params: { path: { model }, header } })
      }
      onClose={onClose}
    >
      <p>From now on the model costs what the catalog or its feed says.</p>
    </ConfirmModal>
  );
}
