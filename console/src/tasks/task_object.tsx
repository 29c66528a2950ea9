// What a task is about: the name of the object, as a link to its page where it has one.
import { RoomLink } from '../app/room_path.tsx';
import { refOfUri, searchOf } from '../catalog/object_ref.ts';
import { namesOf } from './task_text.ts';

export function TaskObject({ target }: { readonly target: string }) {
  const text = namesOf(target).join('.');
  const address = addressOf(target);
  return address ? <RoomLink {...address}>{text}</RoomLink> : text;
}

function addressOf(target: string) {
  const object = refOfUri(target);
  if (object) return { room: 'catalog', names: object.path, search: searchOf(object.kind) };
  const category = target.split('/')[3];
  const [name] = namesOf(target);
  if (name === undefined) return undefined;
  if (category === 'warehouses') return { room: 'warehouses', names: [name] };
  return category === 'schedules' ? { room: 'tasks', names: ['schedules', name] } : undefined;
}
