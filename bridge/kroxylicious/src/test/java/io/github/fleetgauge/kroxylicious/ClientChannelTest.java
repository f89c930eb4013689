package io.github.fleetgauge.kroxylicious;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.kroxylicious.proxy.filter.FilterContext;
import java.lang.reflect.Proxy;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class ClientChannelTest {

    @Test
    void aContextOfAnotherFormHasNone() {
        Class<?>[] interfaces = {FilterContext.class};
        Object context = Proxy.newProxyInstance(getClass().getClassLoader(), interfaces, (self, method, values) -> null);
        assertEquals(Optional.empty(), ClientChannel.of((FilterContext) context));
    }
}
