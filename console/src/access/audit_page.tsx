// The search of the audit trail. The filter is in the address.
import { useMemo } from 'react';
import { useOpenRoom, useRoomSearch } from '../app/room_path.tsx';
import { Button } from '../ui/button.tsx';
import { Field, TextInput } from '../ui/field.tsx';
import { type AuditFilter, AuditList } from './audit_list.tsx';
import styles from './audit_page.module.css';

const fields = [
  ['principal', 'Who', 'ann'],
  ['action', 'Action', 'tables.create'],
  ['outcome', 'Outcome', '0, begun or a code'],
  ['target', 'Part of the request path', '/tables/orders'],
  ['object', 'URI of an object', '/api/v2/catalogs/default'],
  ['requestId', 'Id of the request', ''],
] as const;
type FieldName = (typeof fields)[number][0];
const times = [
  ['from', 'From'],
  ['to', 'Before'],
] as const;

/** A local time of an input as the API takes it. */
const isoOf = (local: string): string | undefined => {
  const at = Date.parse(local);
  return Number.isNaN(at) ? undefined : new Date(at).toISOString();
};

export function AuditPage() {
  const search = useRoomSearch();
  const openRoom = useOpenRoom();
  const change = (name: string, value: string) => {
    const { [name]: _, ...rest } = search;
    openRoom('access', ['audit'], value === '' ? rest : { ...rest, [name]: value }, { replace: true });
  };
  const filter = useMemo(() => {
    const found: { -readonly [K in FieldName | 'from' | 'to']?: string } = {};
    for (const [name] of fields) {
      const value = search[name]?.trim();
      if (value) found[name] = value;
    }
    for (const [name] of times) {
      const value = isoOf(search[name] ?? '');
      if (value !== undefined) found[name] = value;
    }
    return found satisfies AuditFilter;
  }, [search]);
  return (
    <>
      <search className={styles.filter} aria-label="Audit events">
        {fields.map(([name, label, placeholder]) => (
          <Field key={name} label={label}>
            <TextInput value={search[name] ?? ''} placeholder={placeholder} onChange={(value) => change(name, value)} />
          </Field>
        ))}
        {times.map(([name, label]) => (
          <Field key={name} label={label}>
            <TextInput type="datetime-local" value={search[name] ?? ''} onChange={(value) => change(name, value)} />
          </Field>
        ))}
        <div className={styles.clear}>
          <Button onClick={() => openRoom('access', ['audit'], {}, { replace: true })}>Clear</Button>
        </div>
      </search>
      <AuditList filter={filter} label="Audit events" />
    </>
  );
}
