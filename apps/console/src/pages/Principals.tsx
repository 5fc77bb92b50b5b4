import type { components } from '@weighbridge/client';
import { usePolicyChoices, words } from '../api/choices.ts';
import { api, client } from '../api/client.ts';
import { isOperator, useWhoami } from '../app/session.ts';
import { Badge, Button, Name, Time } from '../ui/bits.tsx';
import type { FieldSpec } from '../ui/fieldSpecs.ts';
import { Filters } from '../ui/fields.tsx';
import { Section } from '../ui/Page.tsx';
import { CreateModal, EditModal, RowActions, useDialog } from '../ui/resources.tsx';
import { given, useSearch } from '../ui/search.ts';
import { List } from '../ui/Table.tsx';
import { PolicyName } from './PolicyName.tsx';

type Principal = components['schemas']['Principal'];

export function Principals() {
  const [search] = useSearch();
  const mayWrite = isOperator(useWhoami());
  const { dialog, open, close } = useDialog();
  const query = api.useQuery('get', '/api/v1/principals', {
    params: { query: given(search, ['id_contains', 'page_token']) },
  });
  return (
    <Section
      title="Principals"
      actions={mayWrite && <Button onClick={() => open(<Create onClose={close} />)}>Add a principal</Button>}
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
                  value: ({ id }: Principal) => (
                    <RowActions
                      of={id}
                      actions={[{ label: 'Edit', run: () => open(<Edit id={id} onClose={close} />) }]}
                    />
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

function useSpecs(): readonly FieldSpec[] | undefined {
  const policies = usePolicyChoices();
  if (!policies) return undefined;
  return [
    {
      name: 'role',
      label: 'Role',
      kind: 'choice',
      choices: words('', 'operator', 'finance', 'auditor'),
      hint: 'What its keys reach beyond their own objects. Without a role: nothing.',
    },
    {
      name: 'policy_id',
      label: 'Policy',
      kind: 'choice',
      choices: policies,
      hint: 'Governs its keys that have no policy.',
    },
    {
      name: 'active',
      label: 'Active',
      kind: 'switch',
      initial: 'on',
      hint: 'If off, its keys and tokens are refused.',
    },
  ];
}

function Create({ onClose }: { onClose: () => void }) {
  const specs = useSpecs();
  return (
    <CreateModal
      title="Add a principal"
      specs={specs && [{ name: 'id', label: 'Id', kind: 'text', required: true }, ...specs]}
      create={({ id, ...body }) =>
        client.PUT('/api/v1/principals/{principal_id}', {
          params: { path: { principal_id: String(id) }, header: { 'if-none-match': '*' } },
          body,
        })
      }
      onClose={onClose}
    />
  );
}

function Edit({ id, onClose }: { id: string; onClose: () => void }) {
  const path = { principal_id: id };
  return (
    <EditModal
      title={`Edit ${id}`}
      id={id}
      specs={useSpecs()}
      read={() => client.GET('/api/v1/principals/{principal_id}', { params: { path } })}
      save={(body, header) =>
        client.PUT('/api/v1/principals/{principal_id}', { params: { path, header }, body })
      }
      onClose={onClose}
    />
  );
}
