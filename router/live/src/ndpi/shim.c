/* Five functions of nDPI with types that do not change between its releases: its structs have other sizes and
 * members in each of them, so only a compiler with its headers may touch them. */

#include <stdint.h>
#include <string.h>

#include <ndpi_api.h>

void *weir_ndpi_new(void)
{
	struct ndpi_detection_module_struct *module = ndpi_init_detection_module(ndpi_no_prefs);
	NDPI_PROTOCOL_BITMASK all;

	if (module == NULL)
		return NULL;
	NDPI_BITMASK_SET_ALL(all);
	ndpi_set_protocol_detection_bitmask2(module, &all);
	ndpi_finalize_initialization(module);
	return module;
}

void weir_ndpi_free(void *module)
{
	ndpi_exit_detection_module(module);
}

void *weir_ndpi_flow_new(void)
{
	size_t size = ndpi_detection_get_sizeof_ndpi_flow_struct();
	void *flow = ndpi_flow_malloc(size);

	if (flow != NULL)
		memset(flow, 0, size);
	return flow;
}

void weir_ndpi_flow_free(void *flow)
{
	ndpi_free_flow(flow);
}

/* Reads a packet from its IP header on; without one, ends the flow. Writes the name of the protocol that was found. */
void weir_ndpi_read(void *module, void *flow, const uint8_t *packet, uint16_t length, uint64_t at_ms, char *name,
		    uint32_t name_size)
{
	ndpi_protocol found;
	uint8_t was_guessed;

	if (packet != NULL)
		found = ndpi_detection_process_packet(module, flow, packet, length, at_ms);
	else
		found = ndpi_detection_giveup(module, flow, 0, &was_guessed);
	ndpi_protocol2name(module, found, name, name_size);
}
