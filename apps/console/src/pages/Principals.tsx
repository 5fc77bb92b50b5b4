import type { components } from '@weighbridge/client';
import { getPrincipal, putPrincipal } from '@weighbridge/client/operations';
import { api } from '../api/client.ts';
import { isOperator, useWhoami } from '../app/session.ts';
import { Badge, Button, Name, Time } from '../ui/bits.tsx';
import { call, type Resource, useResource, useSpecs } from '../ui/dialogs.tsx';
import { Filters } from '../ui/fields.tsx';
import { Section } from '../ui/Page.tsx';
import { CreateModal, RowActions } from '../ui/resources.tsx';
import { given, useSearch } from '../ui/search.ts';
import type { ShownFields } from '../ui/specs.ts';
import { List } from '../ui/Table.tsx';
import { PolicyName } from './PolicyName.tsx';

type Principal = components['schemas']['Principal'];

export function Principals() {
  const [search] = useSearch();
  const mayWrite = isOperator(useWhoami());
  const { dialog, open, close, edit } = useResource(PRINCIPALS);
  const query = api.useQuery('get', '/api/v1/principals', {
    params: { query: given(search, ['id_contains', 'page_token']) },
  });
  return (
    <Section
      title="Principals"
      actions={mayWrite && <Button onClick={() => open(<Add onClose={close} />)}>Add a principal</Button>}
    >
      <Filters filters={[{ name: 'id_contains', label: 'Id contains' }]} />
      <List<Principal>
        query={query}
        caption="Principals"
        rowKey={({ id }) => id}
        columns={[
          { title: 'Principal', value: ({ id }) => <Name text={id} />, wrap: true },
          {
            title: 'State',
            value: ({ active }) => (
              <Badge tone={active ? 'good' : 'bad'}>{active ? 'active' : 'deactivated'}</Badge>
            ),
          },
          { title: 'Role', value: ({ role }) => role ?? '–' },
          {
            title: 'Team',
            value: ({ team_name }) => (team_name ? <Name text={team_name} /> : '–'),
            wrap: true,
          },
          { title: 'In the team', value: ({ team_role }) => team_role ?? '–' },
          { title: 'Policy', value: ({ policy_id }) => <PolicyName id={policy_id} />, wrap: true },
          { title: 'Created', value: ({ created_at }) => <Time at={created_at} />, spare: true },
          ...(mayWrite
            ? [
                {
                  title: 'Actions',
                  value: (one: Principal) => (
                    <RowActions of={one.id} actions={[{ label: 'Edit', run: () => edit(one) }]} />
                  ),
                  end: true,
                },
              ]
            : []),
        ]}
        empty={<p>No principal matches.</p>}
      />
      {dialog}
    </Section>
  );
}

const FIELDS: ShownFields<keyof components['schemas']['PrincipalChanges']> = {
  role: { hint: 'What its keys reach beyond their own objects. Without a role: nothing.' },
  policy_id: {},
  active: { initial: 'on', hint: 'If off, its keys and tokens are refused.' },
};

export const PRINCIPALS: Resource<Principal> = {
  noun: 'principal',
  nameOf: ({ id }) => id,
  read: getPrincipal,
  update: putPrincipal,
  fields: FIELDS,
};

/** The address has its id: what a form enters of it is no field. */
function Add({ onClose }: { onClose: () => void }) {
  const specs = useSpecs(putPrincipal, FIELDS, true);
  return (
    <CreateModal
      title="Add a principal"
      specs={specs && [{ name: 'id', label: 'Id', kind: 'text', required: true }, ...specs]}
      create={({ id, ...body }) => call(putPrincipal, String(id), { 'if-none-match': '*' }, body)}
      onClose={onClose}
    />
  );
}
