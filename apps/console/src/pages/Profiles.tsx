import type { components } from '@weighbridge/client';
import { createProfile, deleteProfile, getProfile, updateProfile } from '@weighbridge/client/operations';
import { api } from '../api/client.ts';
import { isOperator, useWhoami } from '../app/session.ts';
import { Button, Money, Name } from '../ui/bits.tsx';
import { type Resource, useResource } from '../ui/dialogs.tsx';
import { Modal } from '../ui/Modal.tsx';
import type { Action } from '../ui/MoreMenu.tsx';
import { Loaded, Page, Section } from '../ui/Page.tsx';
import { RowActions } from '../ui/resources.tsx';
import { given, useSearch } from '../ui/search.ts';
import { CACHE_FIELDS, type ShownFields } from '../ui/specs.ts';
import { List, Table } from '../ui/Table.tsx';
import { count, percent } from '../ui/text.ts';
import { WhatIf } from './WhatIf.tsx';

type Evidence = components['schemas']['Evidence'];
type Profile = components['schemas']['Profile'];
interface ProfileDialog {
  readonly profile: Profile;
  readonly onClose: () => void;
}

export function Profiles() {
  const { dialog, open, close, create, edit, remove } = useResource(PROFILES);
  const mayWrite = isOperator(useWhoami());
  const query = api.useQuery('get', '/api/v1/profiles', { params: { query: { page_size: 500 } } });
  const actions = (profile: Profile): Action[] => [
    { label: 'Explain', run: () => open(<Explain profile={profile} onClose={close} />) },
    ...(mayWrite
      ? [
          { label: 'Edit', run: () => edit(profile) },
          { label: 'Delete', danger: true, run: () => remove(profile) },
        ]
      : []),
  ];
  return (
    <Page
      title="Profiles & evidence"
      lead="Rules that choose a model, and how each model did recently."
      actions={
        mayWrite && (
          <Button kind="primary" onClick={() => create()}>
            Create a profile
          </Button>
        )
      }
    >
      <Section title="Profiles">
        <Loaded query={query}>
          {({ data }) => (
            <Table<Profile>
              caption="Profiles"
              rows={data}
              rowKey={({ id }) => id}
              columns={[
                {
                  title: 'Name in requests',
                  value: ({ name }) => <Name text={`router/${name}`} />,
                  wrap: true,
                },
                { title: 'Strategy', value: ({ strategy }) => strategy.replace('_', ' ') },
                {
                  title: 'Targets',
                  value: ({ targets }) => <Name text={targets.map(({ model }) => model).join(', ')} />,
                  wrap: true,
                },
                {
                  title: 'Actions',
                  value: (profile) => <RowActions of={profile.name} actions={actions(profile)} />,
                  end: true,
                },
              ]}
              empty={<p>No profile. Without one, a request names its model.</p>}
            />
          )}
        </Loaded>
      </Section>
      <Learnt />
      {dialog}
    </Page>
  );
}

const FIELDS: ShownFields<keyof components['schemas']['ProfileChanges']> = {
  name: { hint: 'Requests ask for router/<name>.' },
  strategy: { initial: 'ordered' },
  targets: {
    kind: 'targets',
    hint: 'One a line: <provider>/<model> or a pattern, and its weight if it has one.',
  },
  'constraints.context_window': { label: 'Context of at least', hint: 'In tokens.' },
  'constraints.min_score': { label: 'Score of at least' },
  'constraints.max_input_price_micro_usd': {
    label: 'Input costs at most',
    hint: 'USD for a million tokens.',
  },
  'constraints.max_output_price_micro_usd': {
    label: 'Output costs at most',
    hint: 'USD for a million tokens.',
  },
  'constraints.capabilities': { label: 'Capabilities', hint: 'One a line, such as tools.' },
  pin_prompt_cache_keys: { label: 'Requests with the same prompt_cache_key are one session' },
  ...CACHE_FIELDS,
};
export const PROFILES: Resource<Profile> = {
  noun: 'profile',
  create: createProfile,
  read: getProfile,
  update: updateProfile,
  remove: deleteProfile,
  fields: FIELDS,
  removal: ({ name }) => `Requests for router/${name} are refused from now on.`,
};

function Explain({ profile: { name }, onClose }: ProfileDialog) {
  return (
    <Modal title={`Explain a request for router/${name}`} onClose={onClose} wide>
      <WhatIf model={`router/${name}`} onClose={onClose} />
    </Modal>
  );
}

function Learnt() {
  const [search] = useSearch();
  const query = api.useQuery('get', '/api/v1/evidence', {
    params: { query: { ...given(search, ['page_token']), page_size: 500 } },
  });
  const ms = (value: number | null) => (value === null ? '–' : `${count(Math.round(value))} ms`);
  return (
    <Section title="Evidence">
      <p>Regret is how far a score is below that of the best model for the same workload type.</p>
      <List<Evidence>
        query={query}
        caption="Evidence"
        rowKey={({ workload_type_key, model }) => workload_type_key + model}
        columns={[
          { title: 'Workload type', value: ({ workload_type }) => <Name text={workload_type || 'none'} /> },
          { title: 'Model', value: ({ model }) => <Name text={model} />, wrap: true },
          { title: 'Requests', value: ({ requests }) => count(Math.round(requests)), end: true },
          {
            title: 'Success',
            value: ({ success_rate: rate }) => (rate === null ? '–' : percent(rate, 1)),
            end: true,
          },
          { title: 'First token', value: (one) => ms(one.mean_time_to_first_token_ms), end: true },
          { title: 'Latency', value: (one) => ms(one.mean_latency_ms), end: true },
          {
            title: 'Mean cost',
            value: ({ mean_cost_micro_usd: mean }) => <Money micro={mean && Math.round(mean)} />,
            end: true,
          },
          { title: 'Score', value: ({ mean_score: score }) => score?.toFixed(2) ?? '–', end: true },
          { title: 'Regret', value: (one) => regretOf(one, query.data?.data ?? []), end: true },
        ]}
        empty={<p>No evidence yet: it comes from answers and feedback.</p>}
      />
    </Section>
  );
}

function regretOf({ workload_type_key: key, mean_score: score }: Evidence, all: readonly Evidence[]): string {
  if (score === null) return '–';
  const scores = all.flatMap((one) => (one.workload_type_key === key ? (one.mean_score ?? []) : []));
  return (Math.max(...scores) - score).toFixed(2);
}
