// The database that names without one are looked up in.
import { useQuery } from '@tanstack/react-query';
import { browsedDatabases } from '../app/browsed_databases.ts';
import type { Place } from '../results/run/messages.ts';
import { type Choice, Select } from '../ui/overlays/select.tsx';

interface PlaceSelectProps {
  readonly place: Place;
  readonly onChange: (place: Place) => void;
}

const separator = '\u0000';
const encode = ({ catalog, database }: Place): string =>
  [catalog, ...(database === undefined ? [] : [database])].join(separator);

function placeOf(value: string): Place {
  const [catalog = 'default', database] = value.split(separator);
  return { catalog, database };
}

async function readPlaces(signal: AbortSignal): Promise<readonly Place[]> {
  const catalogs = await browsedDatabases(signal);
  return catalogs.flatMap(({ catalog, databases }) => [
    { catalog },
    ...databases.map((database) => ({ catalog, database })),
  ]);
}

export function PlaceSelect({ place, onChange }: PlaceSelectProps) {
  const { data = [] } = useQuery({ queryKey: ['databases', 'places'], queryFn: ({ signal }) => readPlaces(signal) });
  const known = data.some((candidate) => encode(candidate) === encode(place)) ? data : [place, ...data];
  const hasOneCatalog = new Set(known.map(({ catalog }) => catalog)).size < 2;
  const choices = known.map((candidate): Choice<string> => {
    const { catalog, database } = candidate;
    const label =
      database === undefined
        ? hasOneCatalog
          ? 'No database'
          : catalog
        : hasOneCatalog
          ? database
          : `${catalog}.${database}`;
    return { value: encode(candidate), label };
  });
  return (
    <Select
      isQuiet
      label="Database"
      value={encode(place)}
      choices={choices}
      onChange={(value) => onChange(placeOf(value))}
    />
  );
}
